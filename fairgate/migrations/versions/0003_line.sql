-- The line. Everything here is added with a default, so that workers of the version before run on beside the new ones.

-- What an operator may set, beyond what rooms had.
ALTER TABLE line.rooms
    ADD COLUMN phase                    text    NOT NULL DEFAULT 'scheduled',  -- or what an operator's hand has set
    ADD COLUMN grace_seconds            integer NOT NULL DEFAULT 0,
    ADD COLUMN extensions_max           integer NOT NULL DEFAULT 0,
    ADD COLUMN renew                    boolean NOT NULL DEFAULT false,
    ADD COLUMN standby_above_per_minute integer,
    ADD COLUMN away_policy              text    NOT NULL DEFAULT 'closed',
    ADD COLUMN rate_min_per_minute      integer NOT NULL DEFAULT 1,
    ADD COLUMN stock_latency_ms_max     integer,
    ADD COLUMN beacon                   jsonb,
    DROP CONSTRAINT room_method_is_known,
    ADD CONSTRAINT room_method_is_known CHECK (method IN ('draw', 'fifo', 'passthrough', 'reject')),
    ADD CONSTRAINT room_phase_is_known CHECK (phase IN ('scheduled', 'draft', 'prequeue', 'open', 'closed')),
    ADD CONSTRAINT room_grace_is_bounded CHECK (grace_seconds BETWEEN 0 AND 86400),
    ADD CONSTRAINT room_extensions_are_bounded CHECK (extensions_max BETWEEN 0 AND 20),
    ADD CONSTRAINT room_standby_is_positive CHECK (standby_above_per_minute >= 1),
    ADD CONSTRAINT room_away_policy_is_known CHECK (away_policy IN ('closed', 'open', 'last-rate')),
    ADD CONSTRAINT room_rate_min_is_below_the_rate CHECK (rate_min_per_minute BETWEEN 1 AND rate_per_minute),
    ADD CONSTRAINT room_stock_latency_is_bounded CHECK (stock_latency_ms_max BETWEEN 10 AND 60000);

-- How places are given is fixed when an epoch begins; the room's method may then become passthrough or reject and back.
ALTER TABLE line.progress
    ADD COLUMN ordered_by text NOT NULL DEFAULT 'fifo',
    ADD COLUMN opened_at  timestamptz,
    -- The segment that is in force, in Postgres before it is in Redis: the line is min(base + call_rate * minutes since
    -- since_ms, called) until valid_until_ms, and stands still after.
    ADD COLUMN base           double precision NOT NULL DEFAULT 0,
    ADD COLUMN call_rate      double precision NOT NULL DEFAULT 0,
    ADD COLUMN since_ms       bigint           NOT NULL DEFAULT 0,
    ADD COLUMN valid_until_ms bigint           NOT NULL DEFAULT 0,
    ADD COLUMN pacing         jsonb,  -- what is known of no-shows and back-pressure: where another leader starts
    ADD CONSTRAINT progress_order_is_known CHECK (ordered_by IN ('draw', 'fifo'));
UPDATE line.progress AS progress SET ordered_by = room.method
  FROM line.rooms AS room WHERE room.name = progress.room AND room.method = 'draw';
UPDATE line.progress AS progress SET opened_at = draw.closed_at
  FROM line.draws AS draw WHERE draw.room = progress.room AND draw.epoch = progress.epoch;
UPDATE line.progress SET opened_at = clock_timestamp() WHERE opened_at IS NULL AND called > 0;

-- What operators did, in order and for good.
CREATE TABLE line.operator_actions (
    id     bigint      GENERATED ALWAYS AS IDENTITY,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor  text        NOT NULL,
    action text        NOT NULL,
    room   text,
    detail jsonb       NOT NULL,
    CONSTRAINT operator_actions_pkey PRIMARY KEY (id),
    CONSTRAINT operator_actions_name_their_actor CHECK (actor <> ''),
    CONSTRAINT operator_actions_detail_is_an_object CHECK (jsonb_typeof(detail) = 'object')
);
CREATE INDEX operator_actions_by_room ON line.operator_actions (room, id);

CREATE FUNCTION line.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'line.% is append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END;
$$;
CREATE TRIGGER operator_actions_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON line.operator_actions
    FOR EACH STATEMENT EXECUTE FUNCTION line.refuse_change();

-- The draw's stages, each with its moment: entries closed, root, beacon, order and secret (closed_at).
-- The root is that of the Merkle tree over the entries' leaves. `secret` holds the draw's 32 bytes followed by the root and
-- the beacon's value, so that a worker of the version before works out the same places from it.
CREATE TABLE line.entries (
    room      text    NOT NULL,
    epoch     integer NOT NULL,
    entry     bigint  NOT NULL,
    client_id bytea   NOT NULL,  -- of the first device: the leaf is worked out from it
    late      boolean NOT NULL DEFAULT false,  -- rebuilt from its ticket after the close: no leaf of the tree
    CONSTRAINT entries_pkey PRIMARY KEY (room, epoch, entry),
    CONSTRAINT entry_is_positive CHECK (entry >= 1),
    CONSTRAINT entry_client_is_a_digest CHECK (octet_length(client_id) = 32)
);
CREATE INDEX late_entries ON line.entries (room, epoch, entry) WHERE late;
ALTER TABLE line.draws
    ADD COLUMN leaves_restored   integer NOT NULL DEFAULT 0,  -- how many were rebuilt from tickets before the close
    ADD COLUMN kept_from         timestamptz,  -- a pre-queue that had begun was taken back: the commitment stands for good
    ADD COLUMN prequeue_at       timestamptz,  -- when the pre-queue was to begin, as that stood at the close
    ADD COLUMN last_entry        bigint,       -- the last entry issued, gaps counted
    ADD COLUMN entries_closed_at timestamptz,
    ADD COLUMN root              bytea,
    ADD COLUMN root_at           timestamptz,
    ADD COLUMN beacon            jsonb,        -- as committed to: source, round, fallback
    ADD COLUMN beacon_value      bytea,
    ADD COLUMN beacon_at         timestamptz,
    ADD COLUMN beacon_missed     boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT draw_is_committed_before_its_prequeue CHECK (prequeue_at >= committed_at),
    ADD CONSTRAINT draw_root_is_sha256 CHECK (octet_length(root) = 32),
    ADD CONSTRAINT draw_beacon_value_is_sha256 CHECK (octet_length(beacon_value) = 32),
    ADD CONSTRAINT draw_closes_its_entries_whole CHECK ((entries_closed_at IS NULL) = (last_entry IS NULL)),
    ADD CONSTRAINT draw_root_follows_the_close CHECK ((root IS NULL) = (root_at IS NULL) AND root_at >= entries_closed_at),
    ADD CONSTRAINT draw_beacon_follows_the_root CHECK ((beacon_at IS NULL) OR beacon_at >= root_at);

-- The tree's leaves in chunks of 1,024, kept as entries come, each with the root of its subtree: what is public of a draw.
CREATE TABLE line.leaf_chunks (
    room   text    NOT NULL,
    epoch  integer NOT NULL,
    chunk  bigint  NOT NULL,
    leaves bytea   NOT NULL,
    root   bytea   NOT NULL,
    CONSTRAINT leaf_chunks_pkey PRIMARY KEY (room, epoch, chunk),
    CONSTRAINT leaf_chunk_belongs_to_a_draw FOREIGN KEY (room, epoch) REFERENCES line.draws (room, epoch),
    CONSTRAINT leaf_chunk_is_bounded CHECK (octet_length(leaves) BETWEEN 32 AND 32768 AND octet_length(leaves) % 32 = 0),
    CONSTRAINT leaf_chunk_root_is_sha256 CHECK (octet_length(root) = 32)
);
ALTER TABLE line.leaf_chunks ALTER COLUMN leaves SET STORAGE EXTERNAL;  -- hashes do not compress

-- Tickets, devices and identities that no longer count. Read by every worker each second, as revoked passes are.
CREATE TABLE line.revoked_tickets (
    room       text        NOT NULL,
    epoch      integer     NOT NULL,
    kind       text        NOT NULL,   -- 'ticket' by ticket id, 'device' by client_id, 'identity' as passes carry it, 'pass' by jti
    subject    text        NOT NULL,
    ticket_id  text,                   -- whose slot is freed; null where none is known
    reason     text        NOT NULL,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    written_by xid8        NOT NULL DEFAULT pg_current_xact_id(),
    CONSTRAINT revoked_tickets_pkey PRIMARY KEY (room, epoch, kind, subject),
    CONSTRAINT revoked_ticket_kind_is_known CHECK (kind IN ('ticket', 'device', 'identity', 'pass'))
);
CREATE INDEX revoked_tickets_by_transaction ON line.revoked_tickets (written_by);

-- One-time codes to go on from another device: one for each place, a new one takes the old one's row.
CREATE TABLE line.recoveries (
    room       text        NOT NULL,
    epoch      integer     NOT NULL,
    ticket_id  text        NOT NULL,
    client_id  text        NOT NULL,   -- of the device that asked for the code
    code_hash  bytea       NOT NULL,
    ticket     bytea       NOT NULL,   -- the ticket's own words, without its MAC
    expires_at timestamptz NOT NULL,
    used_by    text,                   -- client_id of the device that redeemed it
    CONSTRAINT recoveries_pkey PRIMARY KEY (room, epoch, ticket_id),
    CONSTRAINT recovery_codes_are_unique UNIQUE (room, epoch, code_hash),
    CONSTRAINT recovery_code_is_hashed CHECK (octet_length(code_hash) = 32)
);
CREATE INDEX recoveries_by_expiry ON line.recoveries (expires_at);

-- A rotated key is known to every worker ('next') before any signs with it; a retired one verifies what it signed.
ALTER TABLE line.signing_keys
    ADD COLUMN activates_at timestamptz,  -- of a next key: when it becomes the current one
    ADD COLUMN retired_at   timestamptz,
    ADD COLUMN revoked_at   timestamptz,
    DROP CONSTRAINT signing_key_state_is_known,
    ADD CONSTRAINT signing_key_state_is_known CHECK (state IN ('next', 'current', 'retired', 'revoked')),
    ADD CONSTRAINT next_signing_key_says_when CHECK (state <> 'next' OR activates_at IS NOT NULL);
CREATE UNIQUE INDEX one_next_key_for_each_purpose ON line.signing_keys (purpose) WHERE state = 'next';

-- Claims granted while Redis was away are marked; Redis hears of them, and of those that came late, from the leader.
ALTER TABLE line.claims
    ADD COLUMN away     boolean NOT NULL DEFAULT false,
    ADD COLUMN to_enter boolean NOT NULL DEFAULT false;
CREATE INDEX claims_to_enter ON line.claims (room, epoch, ticket_id) WHERE to_enter;
ALTER TABLE line.progress ADD COLUMN admitted_away bigint NOT NULL DEFAULT 0;

-- The gateway workers alive, and what share of each room's rate each may admit by itself while Redis is away.
CREATE TABLE line.workers (
    id      text        NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT workers_pkey PRIMARY KEY (id)
);
CREATE TABLE line.shares (
    room            text        NOT NULL,
    worker          text        NOT NULL,
    rate_per_minute float8      NOT NULL,  -- the most that the worker may believe it holds
    valid_until     timestamptz NOT NULL,
    CONSTRAINT shares_pkey PRIMARY KEY (room, worker),
    CONSTRAINT share_is_not_negative CHECK (rate_per_minute >= 0)
);
