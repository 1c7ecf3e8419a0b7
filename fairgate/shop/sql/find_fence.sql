-- The fence of a buyer's own hold.
-- Parameters: :hold, :buyer. Answer: fence; no row when the hold is unknown or somebody else's.
-- Safe under races: one read.
SELECT fence FROM baskets WHERE hold = :hold AND buyer = :buyer
