"""Commands of this machine: `run`, and the queue of `up`."""
