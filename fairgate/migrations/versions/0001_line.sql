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

-- A room's settings, one row a room. `epoch` numbers its sales: tokens and places of another epoch mean nothing.
CREATE TABLE line.rooms (
    name              text        NOT NULL,
    epoch             integer     NOT NULL DEFAULT 1,
    title             text        NOT NULL,
    method            text        NOT NULL,
    prequeue_at       timestamptz,
    opens_at          timestamptz,
    closes_at         timestamptz,
    rate_per_minute   integer     NOT NULL,
    active_max        integer,
    turn_seconds      integer     NOT NULL,
    pass_seconds      integer     NOT NULL,
    paused            boolean     NOT NULL,
    message           text,
    queue_status_code integer     NOT NULL,
    entries_max       integer,
    skus              text[]      NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT rooms_pkey PRIMARY KEY (name),
    CONSTRAINT room_name_is_a_slug CHECK (name ~ '^[a-z0-9][a-z0-9-]{0,39}$'),
    CONSTRAINT room_method_is_known CHECK (method IN ('draw', 'fifo')),
    CONSTRAINT room_moments_are_finite CHECK (isfinite(prequeue_at) AND isfinite(opens_at) AND isfinite(closes_at)),
    CONSTRAINT room_prequeue_comes_before_opening CHECK (prequeue_at <= opens_at),
    CONSTRAINT room_closes_after_opening CHECK (closes_at > opens_at),
    CONSTRAINT room_rate_is_bounded CHECK (rate_per_minute BETWEEN 1 AND 600000),
    CONSTRAINT room_active_max_is_positive CHECK (active_max >= 1),
    CONSTRAINT room_turn_is_bounded CHECK (turn_seconds BETWEEN 5 AND 3600),
    CONSTRAINT room_pass_is_bounded CHECK (pass_seconds BETWEEN 5 AND 86400),
    CONSTRAINT room_queue_status_is_known CHECK (queue_status_code IN (200, 202, 429, 503)),
    CONSTRAINT room_entries_max_is_positive CHECK (entries_max >= 1),
    CONSTRAINT room_epoch_is_positive CHECK (epoch >= 1)
);

-- How far a room's line has come: written before Redis acts on it, so that a lost or rewound Redis resumes here.
-- A generation is one unbroken life of the Redis behind the line; its scripts refuse every other.
CREATE TABLE line.progress (
    room           text   NOT NULL,
    epoch          integer NOT NULL,
    generation     bigint NOT NULL DEFAULT 0,
    redis_identity text,                        -- run id and replication id of that Redis
    term           bigint NOT NULL DEFAULT 0,   -- of the last leader that wrote here
    entry_limit    bigint NOT NULL DEFAULT 0,   -- no entry above it was issued
    entries_known  bigint NOT NULL DEFAULT 0,   -- all entries up to it were issued, or passed over as gaps
    number_limit   bigint NOT NULL DEFAULT 0,   -- the same for numbers, handed out after the entries closed
    numbers_known  bigint NOT NULL DEFAULT 0,
    called         bigint NOT NULL DEFAULT 0,   -- no place above it was called
    over           bigint NOT NULL DEFAULT 0,   -- the turns of all places up to it are over
    clock_ms       bigint NOT NULL DEFAULT 0,   -- the room's turn clock: stands still while the room refuses
    CONSTRAINT progress_pkey PRIMARY KEY (room, epoch),
    CONSTRAINT progress_room_exists FOREIGN KEY (room) REFERENCES line.rooms (name),
    CONSTRAINT progress_entries_stay_below_their_limit CHECK (entries_known <= entry_limit),
    CONSTRAINT progress_numbers_stay_below_their_limit CHECK (numbers_known <= number_limit),
    CONSTRAINT progress_turns_end_after_their_call CHECK (over <= called)
);

-- When places were called, by the room's turn clock: what a turn's end is worked out from after a loss of Redis.
CREATE TABLE line.calls (
    room     text    NOT NULL,
    epoch    integer NOT NULL,
    called   bigint  NOT NULL,
    clock_ms bigint  NOT NULL,
    CONSTRAINT calls_pkey PRIMARY KEY (room, epoch, called),
    CONSTRAINT calls_have_progress FOREIGN KEY (room, epoch) REFERENCES line.progress (room, epoch)
);

-- Ranges of entries or numbers that nobody was (surely) given, because Redis forgot how far it had come.
CREATE TABLE line.gaps (
    room  text    NOT NULL,
    epoch integer NOT NULL,
    kind  text    NOT NULL,
    first bigint  NOT NULL,
    last  bigint  NOT NULL,
    CONSTRAINT gaps_pkey PRIMARY KEY (room, epoch, kind, first),
    CONSTRAINT gaps_have_progress FOREIGN KEY (room, epoch) REFERENCES line.progress (room, epoch),
    CONSTRAINT gap_kind_is_known CHECK (kind IN ('entry', 'number')),
    CONSTRAINT gap_is_not_empty CHECK (1 <= first AND first <= last)
);

-- The draw: committed to before opening, closed once, revealed after.
CREATE TABLE line.draws (
    room          text        NOT NULL,
    epoch         integer     NOT NULL,
    sealed_secret bytea       NOT NULL,
    commitment    bytea       NOT NULL,
    committed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    entries       bigint,                -- the entries among which places are drawn, gaps left out
    secret        bytea,                 -- revealed when the order stands
    closed_at     timestamptz,
    CONSTRAINT draws_pkey PRIMARY KEY (room, epoch),
    CONSTRAINT draw_room_exists FOREIGN KEY (room) REFERENCES line.rooms (name),
    CONSTRAINT draw_commitment_is_sha256 CHECK (octet_length(commitment) = 32),
    CONSTRAINT draw_closes_whole CHECK ((closed_at IS NULL) = (entries IS NULL) AND (closed_at IS NULL) = (secret IS NULL)),
    CONSTRAINT draw_entries_are_counted CHECK (entries >= 0)
);

-- Who was admitted, appended in batches: a new Redis gets its slots back from here.
CREATE TABLE line.claims (
    room       text    NOT NULL,
    epoch      integer NOT NULL,
    ticket_id  text    NOT NULL,
    turn       integer NOT NULL,
    place      bigint  NOT NULL,
    jti        text    NOT NULL,
    issued_at  bigint  NOT NULL,  -- Unix seconds
    expires_at bigint  NOT NULL,
    CONSTRAINT claims_pkey PRIMARY KEY (room, epoch, ticket_id, turn),
    CONSTRAINT claim_room_exists FOREIGN KEY (room) REFERENCES line.rooms (name),
    CONSTRAINT claim_expires_after_it_began CHECK (expires_at > issued_at)
);
CREATE INDEX claims_by_expiry ON line.claims (room, epoch, expires_at);
