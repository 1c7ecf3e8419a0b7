"""Six ways to grant the same hold behind one interface, for comparison: two are offered for real sales, four are not."""
