"""Jobs as a table: what a cluster writes, and what a snapshot shows of it."""
