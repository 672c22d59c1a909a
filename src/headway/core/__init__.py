"""The vocabulary: jobs, nodes, snapshots, plans. No input or output, no clock, no randomness, no logging."""
