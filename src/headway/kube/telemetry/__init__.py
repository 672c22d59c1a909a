"""What others see of a scheduler at work: whether it is alive, and its figures."""
