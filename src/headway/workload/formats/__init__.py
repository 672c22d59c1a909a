"""One file per published trace format. Each has `NEEDS`, the columns it cannot do without, and `read`."""
