-- Holds of the past, each expired: the hold, its part, its key's record and its two moves in the ledger, as reserve and the
-- sweep would have left them. $1 the SKU's number, $2 how many. The books balance before and after.
WITH past AS MATERIALIZED (
    SELECT uuidv7(interval '-1 day') AS hold_id, uuidv7(interval '-1 day') AS operation_id, gen_random_uuid() AS slot,
           'buyer:past:' || gen_random_uuid() AS buyer, clock_timestamp() - interval '1 day' AS at
      FROM generate_series(1, $2::bigint)
), hold AS (
    INSERT INTO stock.holds (sku_id, id, state, fence, expires_at, actor, owner, buyer, lines, quantity, created_at, ended_at)
    SELECT $1::integer, hold_id, 'expired', 1, at + interval '5 min', buyer, buyer, buyer, '[{"sku":"past","quantity":1}]', 1, at,
           at + interval '5 min' FROM past
), part AS (
    INSERT INTO stock.hold_parts (sku_id, hold_id, shard, lead_sku_id, quantity, buyer)
    SELECT $1, hold_id, 0, $1, 1, buyer FROM past
), key AS (
    INSERT INTO stock.idempotency (sku_id, slot, fingerprint, answer, operation_id, hold_id, created_at)
    SELECT $1, slot, sha256(slot::text::bytea),
           '{"id": "' || hold_id || '", "fence": 1, "state": "held", "expires_at": "2026-01-01T00:05:00.000Z", "lines": [{"sku":"past","quantity":1}]}',
           operation_id, hold_id, at FROM past
)
INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, held_delta, hold_id, actor, at)
SELECT $1, CASE move.verb WHEN 'reserve' THEN operation_id ELSE hold_id END, move.verb, 0, move.units, hold_id, buyer, at
  FROM past CROSS JOIN (VALUES ('reserve', 1), ('expire', -1)) AS move (verb, units);
