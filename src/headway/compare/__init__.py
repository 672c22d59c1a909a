"""Runs of several policies on the same jobs, put side by side. Knows simulation, policies and records; no command."""
