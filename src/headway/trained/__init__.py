"""Trained policies as files, and the guard that watches one live."""
