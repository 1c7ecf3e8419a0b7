-- End a key. $1 id. Answers its id, or no row where there is no such key; revoking twice keeps the first time.
UPDATE chassis.api_keys SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE id = $1 RETURNING id;
