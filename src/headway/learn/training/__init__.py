"""Training of `learned`: evolution strategies on tasks of Knobs-v0, deterministic by seed."""
