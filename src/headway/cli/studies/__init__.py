"""Commands in virtual time and about logs: simulating, comparing, experiments."""
