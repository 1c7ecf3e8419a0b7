-- Take or renew a lease by the database's clock.
-- $1 role, $2 holder, $3 seconds the lease lasts from now.
-- Answers one row (term) while the holder leads, and no row while somebody else does.
-- Safe under races: one upsert decides, its row lock serialises bidders; the term grows only when the holder changes
-- or the same holder comes back after its lease had ended, so whoever paused past its lease carries an old term.
INSERT INTO chassis.leases AS lease (role, holder, term, until)
VALUES ($1, $2, 1, clock_timestamp() + make_interval(secs => $3))
ON CONFLICT (role) DO UPDATE
    SET holder = EXCLUDED.holder,
        term   = lease.term + CASE WHEN lease.holder = EXCLUDED.holder AND lease.until > clock_timestamp() THEN 0 ELSE 1 END,
        until  = clock_timestamp() + make_interval(secs => $3)
    WHERE lease.holder = EXCLUDED.holder OR lease.until <= clock_timestamp()
RETURNING lease.term;
