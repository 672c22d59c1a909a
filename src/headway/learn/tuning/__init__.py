"""Tuning: the default policy's settings on windows of one's own log, and whether that is worth a change."""
