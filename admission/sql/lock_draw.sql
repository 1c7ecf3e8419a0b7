-- Keep everybody else off a draw until this transaction ends.
-- $1 room, $2 epoch. Answers entries_closed: whether its entries are closed; no row where there is no draw.
-- Safe under races: the row's lock; what follows in the transaction sees what was committed before it.
SELECT entries_closed_at IS NOT NULL AS entries_closed FROM line.draws WHERE room = $1 AND epoch = $2 FOR UPDATE;
