-- Give a worker's shares back, when it ends.
-- $1 the worker's id. Answers nothing; giving back twice is giving back once.
-- Safe under races: what it held is only free for others once this is committed.
WITH ended AS (DELETE FROM line.workers WHERE id = $1)
DELETE FROM line.shares WHERE worker = $1;
