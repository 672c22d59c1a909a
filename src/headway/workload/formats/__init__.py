"""One file per published trace format. Each has `NEEDS`, the required columns, and `read`."""
