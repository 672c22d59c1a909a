"""Commands about jobs, of the queue of this machine or of a cluster."""
