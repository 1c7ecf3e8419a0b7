-- The stock: what is sold, and every move of it. Each stock table carries its SKU's number in its primary key and in
-- every unique constraint, so that the tables can be distributed by SKU later (the single exception says so). Tables that grow
-- with every hold have no foreign key to the SKU: each insert would lock its one row, and the hot path would queue there.
CREATE SCHEMA stock;

-- A small reference table: what can be sold, under which rules.
CREATE TABLE stock.skus (
    id                  integer     GENERATED ALWAYS AS IDENTITY,
    name                text        NOT NULL,
    title               text        NOT NULL,
    kind                text        NOT NULL,
    state               text        NOT NULL,
    total               bigint      NOT NULL,  -- what the seller stated: the sub-counters' totals sum to it
    shards              integer     NOT NULL,
    hold_seconds        integer     NOT NULL,
    hold_seconds_max    integer     NOT NULL,
    extensions_max      integer     NOT NULL,
    payment_seconds_max integer     NOT NULL,
    buyer_max           integer,
    limit_group         text,
    room                text,                  -- reserving needs a live pass of this room
    on_sale_at          timestamptz,
    off_sale_at         timestamptz,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT skus_pkey PRIMARY KEY (id),
    CONSTRAINT sku_names_are_unique UNIQUE (name),
    CONSTRAINT sku_name_is_a_slug CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    CONSTRAINT sku_kind_is_known CHECK (kind IN ('fungible', 'seated')),
    CONSTRAINT sku_state_is_known CHECK (state IN ('draft', 'on_sale', 'halted', 'ended')),
    CONSTRAINT sku_total_is_not_negative CHECK (total >= 0),
    CONSTRAINT sku_shards_are_bounded CHECK (shards BETWEEN 1 AND 1024 AND (kind = 'fungible' OR shards = 1)),
    CONSTRAINT sku_hold_seconds_are_ordered CHECK (1 <= hold_seconds AND hold_seconds <= hold_seconds_max),
    CONSTRAINT sku_extensions_are_not_negative CHECK (extensions_max >= 0),
    CONSTRAINT sku_payment_seconds_are_positive CHECK (payment_seconds_max >= 1),
    CONSTRAINT sku_buyer_max_is_positive CHECK (buyer_max >= 1),
    CONSTRAINT sku_leaves_sale_after_entering CHECK (off_sale_at > on_sale_at)
);

-- The N rows that a fungible SKU's stock is split over. `available` is never stored: total + allowance - held - sold.
CREATE TABLE stock.sub_counters (
    sku_id    integer NOT NULL,
    shard     integer NOT NULL,
    total     bigint  NOT NULL,
    held      bigint  NOT NULL DEFAULT 0,
    sold      bigint  NOT NULL DEFAULT 0,
    allowance bigint  NOT NULL DEFAULT 0,
    active    boolean NOT NULL DEFAULT true,
    fence     bigint  NOT NULL DEFAULT 0,      -- of the last hold that took from here
    CONSTRAINT sub_counters_pkey PRIMARY KEY (sku_id, shard),
    CONSTRAINT sub_counter_sku_exists FOREIGN KEY (sku_id) REFERENCES stock.skus (id),
    CONSTRAINT sub_counter_total_is_not_negative CHECK (total >= 0 AND allowance >= 0),
    CONSTRAINT sub_counter_held_is_not_negative CHECK (held >= 0),
    CONSTRAINT sub_counter_sold_is_not_negative CHECK (sold >= 0),
    CONSTRAINT sub_counter_never_oversold CHECK (held + sold <= total + allowance)
) WITH (
    fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- Seats of a seated SKU, counted by state.
CREATE TABLE stock.seats (
    sku_id   integer NOT NULL,
    seat     text    NOT NULL,
    section  text    NOT NULL,
    row_name text    NOT NULL,
    number   integer NOT NULL,
    tier     text,
    x        real,
    y        real,
    state    text    NOT NULL DEFAULT 'available',
    hold_id  uuid,
    fence    bigint  NOT NULL DEFAULT 0,
    CONSTRAINT seats_pkey PRIMARY KEY (sku_id, seat),
    CONSTRAINT seat_sku_exists FOREIGN KEY (sku_id) REFERENCES stock.skus (id),
    CONSTRAINT seat_state_is_known CHECK (state IN ('available', 'held', 'sold', 'blocked')),
    CONSTRAINT seat_is_taken_by_one_hold CHECK ((state IN ('held', 'sold')) = (hold_id IS NOT NULL))
) WITH (fillfactor = 50);
CREATE INDEX seats_by_hold ON stock.seats (hold_id) WHERE hold_id IS NOT NULL;

-- Units leased to a buyer until a deadline. sku_id is the hold's first SKU, which its id names too.
CREATE TABLE stock.holds (
    sku_id            integer     NOT NULL,
    id                uuid        NOT NULL,
    state             text        NOT NULL DEFAULT 'held',
    fence             bigint      NOT NULL,
    expires_at        timestamptz NOT NULL,
    extensions        integer     NOT NULL DEFAULT 0,
    paying_started_at timestamptz,
    paying_until      timestamptz,
    stuck_since       timestamptz,          -- asked about, and nobody knows: a person decides
    actor             text        NOT NULL, -- who reserved: shop:client or buyer:room:ticket
    owner             text,                 -- buyer:room:ticket of the pass that was shown, who may read, extend and release
    buyer             text,                 -- whom limits are counted for
    lines             json        NOT NULL, -- as the buyer asked; hold_parts say where the units came from
    created_at        timestamptz NOT NULL,
    ended_at          timestamptz,
    CONSTRAINT holds_pkey PRIMARY KEY (sku_id, id),
    CONSTRAINT hold_state_is_known CHECK (state IN ('held', 'paying', 'sold', 'released', 'expired', 'cancelled')),
    CONSTRAINT hold_ends_once CHECK ((state IN ('held', 'paying')) = (ended_at IS NULL)),
    CONSTRAINT hold_pays_until_a_deadline CHECK ((paying_started_at IS NULL) = (paying_until IS NULL)),
    CONSTRAINT hold_pays_only_once_started CHECK (state <> 'paying' OR paying_until IS NOT NULL),
    CONSTRAINT hold_is_stuck_only_while_paying CHECK (stuck_since IS NULL OR state = 'paying'),
    CONSTRAINT hold_fence_fits_a_double CHECK (fence BETWEEN 1 AND 9007199254740991)
) WITH (fillfactor = 70);
CREATE INDEX holds_due ON stock.holds (expires_at) WHERE state = 'held';
CREATE INDEX holds_paying ON stock.holds (paying_until) WHERE state = 'paying';

-- Where a hold's units came from: one row for each sub-counter, or (shard -1) one for its seats of a SKU.
CREATE TABLE stock.hold_parts (
    sku_id      integer NOT NULL,
    hold_id     uuid    NOT NULL,
    shard       integer NOT NULL,
    lead_sku_id integer NOT NULL,           -- the hold's own sku_id
    quantity    bigint  NOT NULL,
    seats       text[],
    buyer       text,
    CONSTRAINT hold_parts_pkey PRIMARY KEY (sku_id, hold_id, shard),
    CONSTRAINT hold_part_takes_something CHECK (quantity >= 1),
    CONSTRAINT hold_part_is_units_or_seats CHECK ((shard = -1) = (seats IS NOT NULL) AND shard >= -1),
    CONSTRAINT hold_part_counts_its_seats CHECK (seats IS NULL OR cardinality(seats) = quantity)
);
CREATE INDEX hold_parts_by_hold ON stock.hold_parts (hold_id);
CREATE INDEX hold_parts_by_buyer ON stock.hold_parts (sku_id, buyer) WHERE buyer IS NOT NULL;

-- Confirmed holds.
CREATE TABLE stock.sales (
    sku_id       integer     NOT NULL,
    id           uuid        NOT NULL,
    hold_id      uuid        NOT NULL,
    sold_at      timestamptz NOT NULL,
    cancelled_at timestamptz,
    CONSTRAINT sales_pkey PRIMARY KEY (sku_id, id),
    CONSTRAINT a_hold_is_sold_once UNIQUE (sku_id, hold_id),
    CONSTRAINT sale_hold_exists FOREIGN KEY (sku_id, hold_id) REFERENCES stock.holds (sku_id, id),
    CONSTRAINT sale_is_cancelled_after_it_was_made CHECK (cancelled_at >= sold_at)
);

-- The first answer to each key that had an effect.
CREATE TABLE stock.idempotency (
    sku_id       integer     NOT NULL,
    scope        text        NOT NULL,
    key          text        NOT NULL,
    fingerprint  bytea       NOT NULL,
    answer       text        NOT NULL,
    operation_id uuid        NOT NULL,
    hold_id      uuid        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT idempotency_pkey PRIMARY KEY (sku_id, scope, key)
);
-- The single unique index without the SKU: on one Postgres a key is unique whatever SKU it names.
CREATE UNIQUE INDEX a_key_has_one_effect ON stock.idempotency (scope, key);

-- The append-only record: one row for each sub-counter or seat set that a move touched.
CREATE TABLE stock.ledger (
    sku_id          integer     NOT NULL,
    id              bigint      GENERATED ALWAYS AS IDENTITY (CACHE 1),
    operation_id    uuid        NOT NULL,
    verb            text        NOT NULL,
    shard           integer     NOT NULL,   -- -1 for seats
    seats           text[],
    seat_state      text,                   -- what the seats became
    total_delta     bigint      NOT NULL DEFAULT 0,
    allowance_delta bigint      NOT NULL DEFAULT 0,
    held_delta      bigint      NOT NULL DEFAULT 0,
    sold_delta      bigint      NOT NULL DEFAULT 0,
    hold_id         uuid,
    actor           text        NOT NULL,
    reason          text,
    at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT ledger_pkey PRIMARY KEY (sku_id, id),
    CONSTRAINT ledger_verb_is_known CHECK (
        verb IN ('create', 'reserve', 'confirm', 'release', 'expire', 'restate', 'rebalance', 'repair')),
    CONSTRAINT ledger_row_is_units_or_seats CHECK ((shard = -1) = (seats IS NOT NULL) AND (seats IS NULL) = (seat_state IS NULL))
);
CREATE INDEX ledger_by_hold ON stock.ledger (hold_id) WHERE hold_id IS NOT NULL;

CREATE FUNCTION stock.refuse_to_change_the_ledger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only: % is refused', TG_OP USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER ledger_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON stock.ledger
    FOR EACH STATEMENT EXECUTE FUNCTION stock.refuse_to_change_the_ledger();

-- Only locks: whoever counts a buyer's units holds the buyer's row of the limit group (sku_id is its first SKU).
CREATE TABLE stock.buyers (
    sku_id integer NOT NULL,
    buyer  text    NOT NULL,
    CONSTRAINT buyers_pkey PRIMARY KEY (sku_id, buyer)
);
