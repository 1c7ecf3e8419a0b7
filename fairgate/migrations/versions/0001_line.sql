-- The line: what must outlive Redis. Redis holds what is hot; every number, key and secret that it may lose stands here
-- before it is used there.
CREATE SCHEMA line;

-- Signing keys. The private part is sealed with the master key; a retired key still verifies, a revoked one never.
CREATE TABLE line.signing_keys (
    kid            text        NOT NULL,
    purpose        text        NOT NULL,
    state          text        NOT NULL DEFAULT 'current',
    public_key     bytea,                 -- pass keys only: raw Ed25519
    sealed_private bytea       NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT signing_keys_pkey PRIMARY KEY (kid),
    CONSTRAINT signing_key_purpose_is_known CHECK (purpose IN ('pass', 'ticket')),
    CONSTRAINT signing_key_state_is_known CHECK (state IN ('current', 'retired', 'revoked')),
    CONSTRAINT signing_key_publishes_only_pass_keys CHECK ((purpose = 'pass') = (public_key IS NOT NULL)),
    CONSTRAINT signing_key_public_has_32_bytes CHECK (public_key IS NULL OR octet_length(public_key) = 32)
);
CREATE UNIQUE INDEX one_current_key_for_each_purpose ON line.signing_keys (purpose) WHERE state = 'current';

-- Passes that no longer count although they have not expired. Verifiers read each second what is new to them.
CREATE TABLE line.revocations (
    room       text   NOT NULL,
    jti        text   NOT NULL,
    expires_at bigint NOT NULL,  -- Unix seconds; afterwards the pass refuses itself and the row may go
    written_by xid8   NOT NULL DEFAULT pg_current_xact_id(),
    CONSTRAINT revocations_pkey PRIMARY KEY (jti)
);
CREATE INDEX revocations_by_transaction ON line.revocations (written_by);
CREATE INDEX revocations_by_expiry ON line.revocations (expires_at);
