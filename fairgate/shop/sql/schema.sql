-- The shop's own tables, in one SQLite file. Run at every start; changes nothing that is there.
--
-- baskets: which buyer holds what, and the fence that proves it to the stock.
-- payments: one row for each hold that anybody tried to pay. A row is written before the stock hears of the payment,
--   so that an inquiry after a crash always finds it.
-- Safe under races: a payment leaves `pending` once. The trigger holds that for every statement, present and future;
--   the reconciler gives units back on the strength of it.

CREATE TABLE IF NOT EXISTS baskets (
    hold text NOT NULL PRIMARY KEY,
    buyer text NOT NULL,
    fence integer NOT NULL,
    kept_at text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE INDEX IF NOT EXISTS baskets_of_a_buyer ON baskets (buyer, kept_at);

CREATE TABLE IF NOT EXISTS payments (
    hold text NOT NULL PRIMARY KEY,
    buyer text NOT NULL,
    key text NOT NULL,
    card text NOT NULL,
    state text NOT NULL
        CONSTRAINT payment_state_is_known CHECK (state IN ('pending', 'paid', 'declined', 'cancelled', 'refunded')),
    began_at text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    ended_at text,
    CONSTRAINT a_key_pays_once UNIQUE (buyer, key)
) STRICT;

CREATE TRIGGER IF NOT EXISTS an_ended_payment_stays_ended
BEFORE UPDATE OF state ON payments
WHEN OLD.state <> 'pending' AND NOT (OLD.state = 'paid' AND NEW.state IN ('paid', 'refunded'))
BEGIN
    SELECT RAISE(ABORT, 'an ended payment stays ended');
END;
