-- Mark a database as the demo's: the next demo may clear it.
COMMENT ON SCHEMA chassis IS 'fairgate demo: the next demo clears this database';
