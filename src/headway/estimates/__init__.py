"""Estimates: books that turn progress into time left and speed, and the predictors that they use. Pure."""
