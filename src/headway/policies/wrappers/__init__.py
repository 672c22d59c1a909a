"""Policies around a policy: queues with quotas, and deciding in rounds."""
