-- A buyer's last holds, newest first.
-- Parameters: :buyer, :rows_max. Answer: hold.
-- Safe under races: one read.
SELECT hold FROM baskets WHERE buyer = :buyer ORDER BY kept_at DESC, hold DESC LIMIT :rows_max
