-- A live key by its id. $1 id. Answers client, role, secret_hash, or no row for an unknown or revoked key.
SELECT client, role, secret_hash FROM chassis.api_keys WHERE id = $1 AND revoked_at IS NULL;
