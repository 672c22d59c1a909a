"""Published claims, reproduced in virtual time: a fixed grid, several policies, the same seeds, and what came of it."""
