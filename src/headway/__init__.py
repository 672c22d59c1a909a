"""Headway: a scheduler for deep-learning training that knows how much headway each job is making.

Importing this package imports nothing else, so that a training script may say `from headway import progress`
at no cost.
"""

__version__ = "0.1.0"
