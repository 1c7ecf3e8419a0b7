-- Let the current key of a purpose sign nothing more, where the next one's time has come; activate_signing_key.sql follows
-- in the same transaction.
-- $1 purpose. Answers nothing.
-- Safe under races: the row lock lets one worker do it; the others find the state judged on the locked row.
UPDATE line.signing_keys
SET state = 'retired', retired_at = clock_timestamp()
WHERE purpose = $1 AND state = 'current' AND EXISTS (
    SELECT FROM line.signing_keys AS next
    WHERE next.purpose = $1 AND next.state = 'next' AND next.activates_at <= clock_timestamp()
);
