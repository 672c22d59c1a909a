"""Size-v0: start at a size, grow, shrink or wait. Nothing is stopped."""
