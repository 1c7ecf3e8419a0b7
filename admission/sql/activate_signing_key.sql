-- Make a purpose's next key the current one, where no key is.
-- $1 purpose. Answers true, or no row where there is no next key or a current one stands.
-- Safe under races: one_current_key_for_each_purpose; a next key becomes current once, judged on the locked row.
UPDATE line.signing_keys
SET state = 'current'
WHERE purpose = $1 AND state = 'next'
    AND NOT EXISTS (SELECT FROM line.signing_keys AS current WHERE current.purpose = $1 AND current.state = 'current')
RETURNING true;
