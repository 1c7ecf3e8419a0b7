-- Give a lease back at once, so that a successor need not wait for its end.
-- $1 role, $2 holder. Answers nothing; a lease that somebody else holds by now stays theirs.
UPDATE chassis.leases SET until = clock_timestamp() WHERE role = $1 AND holder = $2;
