"""The log of a run: written alike by all three clusters, read by replay, metrics and reports. Sees core only."""
