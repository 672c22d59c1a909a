"""The only door to the API server for writes: ranks, turns, retries, and the fence that a second instance meets."""
