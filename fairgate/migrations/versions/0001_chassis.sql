-- What every process shares: API keys and leases.
CREATE SCHEMA chassis;

CREATE TABLE chassis.api_keys (
    id          text        NOT NULL,
    client      text        NOT NULL,  -- who acts: outlives its keys, scopes idempotency
    role        text        NOT NULL,
    secret_hash bytea       NOT NULL,  -- SHA-256 of 256 random bits: nothing to guess, so nothing to slow down
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at  timestamptz,
    CONSTRAINT api_keys_pkey PRIMARY KEY (id),
    CONSTRAINT api_key_client_is_a_name CHECK (client ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    CONSTRAINT api_key_role_is_known CHECK (role IN ('shop', 'operator', 'admin')),
    CONSTRAINT api_key_hash_is_sha256 CHECK (octet_length(secret_hash) = 32)
);

CREATE TABLE chassis.leases (
    role   text        NOT NULL,
    holder text        NOT NULL,
    term   bigint      NOT NULL,  -- grows with every change of holder: stale leaders are told apart by it
    until  timestamptz NOT NULL,
    CONSTRAINT leases_pkey PRIMARY KEY (role),
    CONSTRAINT lease_term_is_positive CHECK (term > 0)
);
