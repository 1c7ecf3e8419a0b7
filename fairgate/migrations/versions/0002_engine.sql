-- The stock engine: keys found by one random index, holds that know how much they promised, oversell within bounds,
-- adjustments with their source, incidents, and the ledger's numbers. Column by column beside what 0001 says of each table.

-- A key's slot is the first 128 bits of SHA-256(scope, newline, key): one small unique index instead of two wide ones.
-- The primary key is time-ordered, so that pruning by age needs no index of its own.
ALTER TABLE stock.idempotency ADD COLUMN slot uuid;
UPDATE stock.idempotency
   SET slot = encode(substring(sha256(convert_to(scope || E'\n' || key, 'UTF8')) FROM 1 FOR 16), 'hex')::uuid;
DROP INDEX stock.a_key_has_one_effect;
ALTER TABLE stock.idempotency
    DROP CONSTRAINT idempotency_pkey,
    DROP COLUMN scope,
    DROP COLUMN key,
    ALTER COLUMN slot SET NOT NULL,
    ALTER COLUMN hold_id DROP NOT NULL,  -- an adjustment's record has no hold
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (sku_id, operation_id);
-- The single unique index without the SKU: on one Postgres a key is unique whatever SKU it names.
CREATE UNIQUE INDEX a_key_has_one_effect ON stock.idempotency (slot);

ALTER TABLE stock.holds
    ADD COLUMN quantity    bigint NOT NULL DEFAULT 0,  -- units promised, over all lines; a partial confirm leaves it
    ADD COLUMN backordered bigint NOT NULL DEFAULT 0,  -- of these, beyond what there was
    ADD COLUMN extended_by uuid;                       -- the operation that extended it last: sent again, it counts once
UPDATE stock.holds AS hold
   SET quantity = (SELECT coalesce(sum(coalesce((line ->> 'quantity')::bigint, json_array_length(line -> 'seats'))), 0)
                     FROM json_array_elements(hold.lines) AS line);
ALTER TABLE stock.holds
    ALTER COLUMN quantity DROP DEFAULT,
    ADD CONSTRAINT hold_backorders_at_most_all CHECK (0 <= backordered AND backordered <= quantity);

-- When a SKU's next units come back: of holds that it leads, and of carts that it is in.
CREATE INDEX holds_next ON stock.holds (sku_id, expires_at) WHERE state = 'held';
CREATE INDEX hold_parts_in_carts ON stock.hold_parts (sku_id, hold_id) WHERE lead_sku_id <> sku_id;

ALTER TABLE stock.hold_parts
    ADD COLUMN backordered bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT hold_part_backorders_at_most_all CHECK (0 <= backordered AND backordered <= quantity);

ALTER TABLE stock.sales
    ADD COLUMN lines         json,    -- what was sold, when that is less than the hold held
    ADD COLUMN cancelled_by  text,
    ADD COLUMN cancel_reason text;

ALTER TABLE stock.skus
    ADD COLUMN oversell_policy    text   NOT NULL DEFAULT 'forbid',
    ADD COLUMN oversell_allowance bigint NOT NULL DEFAULT 0,  -- the sub-counters' allowances sum to it
    ADD COLUMN strategy           text   NOT NULL DEFAULT 'batched',
    ADD CONSTRAINT sku_oversell_policy_is_known CHECK (oversell_policy IN ('forbid', 'bounded')),
    ADD CONSTRAINT sku_oversells_only_where_bounded CHECK (
        oversell_allowance >= 0 AND (oversell_policy = 'bounded' AND kind = 'fungible' OR oversell_allowance = 0)),
    ADD CONSTRAINT sku_seats_are_never_oversold CHECK (kind = 'fungible' OR oversell_policy = 'forbid'),
    ADD CONSTRAINT sku_strategy_is_known CHECK (strategy IN ('sharded', 'batched'));

ALTER TABLE stock.ledger
    ADD COLUMN source      text,        -- whose figure an adjustment is: a till, a warehouse, a feed
    ADD COLUMN occurred_at timestamptz, -- when its source says that it happened
    DROP CONSTRAINT ledger_verb_is_known,
    ADD CONSTRAINT ledger_verb_is_known CHECK (verb IN (
        'create', 'reserve', 'confirm', 'release', 'expire', 'reacquire', 'cancel',
        'restate', 'increase', 'reduce', 'recount', 'allow', 'halt', 'resume', 'rebalance', 'repair'));
CREATE INDEX ledger_adjustments ON stock.ledger (sku_id, id) WHERE source IS NOT NULL;

-- Whether any sub-counter of a SKU is inactive is asked in every statement; most SKUs have none.
CREATE INDEX sub_counters_inactive ON stock.sub_counters (sku_id) WHERE NOT active;

-- The order of events: each committed ledger row gets its SKU's next number, without gaps. Ledger rows never change.
CREATE TABLE stock.ledger_numbers (
    sku_id    integer NOT NULL,
    number    bigint  NOT NULL,
    ledger_id bigint  NOT NULL,
    CONSTRAINT ledger_numbers_pkey PRIMARY KEY (sku_id, number),
    CONSTRAINT a_ledger_row_is_numbered_once UNIQUE (sku_id, ledger_id),
    CONSTRAINT ledger_numbers_start_at_one CHECK (number >= 1)
);

-- How far the sequencer has come with each SKU.
CREATE TABLE stock.sequencers (
    sku_id       integer NOT NULL,
    number       bigint  NOT NULL DEFAULT 0,  -- the last one given
    settled_id   bigint  NOT NULL DEFAULT 0,  -- every ledger row up to this is numbered or will never be
    pending_id   bigint  NOT NULL DEFAULT 0,  -- the largest seen in an earlier pass …
    pending_xmax xid8,                        -- … settled once every transaction older than this has ended
    CONSTRAINT sequencers_pkey PRIMARY KEY (sku_id),
    CONSTRAINT sequencer_sku_exists FOREIGN KEY (sku_id) REFERENCES stock.skus (id)
);

-- Recorded and physical stock disagree after a sale: a person has to act.
CREATE TABLE stock.incidents (
    sku_id       integer     NOT NULL,
    id           uuid        NOT NULL,
    kind         text        NOT NULL,
    state        text        NOT NULL DEFAULT 'open',
    quantity     bigint      NOT NULL,  -- units that are promised and do not exist
    operation_id uuid        NOT NULL,
    source       text        NOT NULL,
    reason       text        NOT NULL,
    opened_by    text        NOT NULL,
    opened_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT incidents_pkey PRIMARY KEY (sku_id, id),
    CONSTRAINT incident_sku_exists FOREIGN KEY (sku_id) REFERENCES stock.skus (id),
    CONSTRAINT incident_kind_is_known CHECK (kind IN ('shortage')),
    CONSTRAINT incident_state_is_known CHECK (state IN ('open', 'closed')),
    CONSTRAINT incident_is_about_units CHECK (quantity >= 1)
);
