-- Remember that a buyer has a hold, so that the pages can find its fence.
-- Parameters: :hold, :buyer, :fence. No answer.
-- Safe under races: the stock gives one hold to one buyer, so a second writer brings the same row, or a later fence.
INSERT INTO baskets (hold, buyer, fence) VALUES (:hold, :buyer, :fence)
ON CONFLICT (hold) DO UPDATE SET fence = max(fence, excluded.fence)
