"""Predictions: speed, and later curves and durations. Pure."""
