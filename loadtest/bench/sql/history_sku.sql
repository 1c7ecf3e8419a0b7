-- A SKU whose sale is over, for holds of the past. Answers its number; makes it where it is missing.
INSERT INTO stock.skus (name, title, kind, state, total, shards, hold_seconds, hold_seconds_max, extensions_max, payment_seconds_max)
VALUES ('past', 'A sale of the past', 'fungible', 'ended', 0, 1, 300, 300, 0, 300)
ON CONFLICT (name) DO UPDATE SET title = excluded.title RETURNING id;
