"""Order-v0: which waiting job comes next, or wait. Sizes are as asked for; nothing is stopped."""
