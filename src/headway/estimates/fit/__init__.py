"""Predictors: each is fitted to what jobs have reported. Pure."""
