-- Store a new API key. $1 id, $2 client, $3 role, $4 SHA-256 of its secret.
INSERT INTO chassis.api_keys (id, client, role, secret_hash) VALUES ($1, $2, $3, $4);
