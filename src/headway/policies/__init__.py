"""Policies: pure functions from a snapshot to a plan, built from small steps on one draft."""
