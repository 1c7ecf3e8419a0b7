-- All keys, newest first, without their hashes.
SELECT id, client, role, created_at, revoked_at FROM chassis.api_keys ORDER BY created_at DESC, id;
