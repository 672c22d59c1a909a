"""Compares a job's intent with its pods and says what to do next. Pure."""
