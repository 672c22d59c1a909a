"""Knobs-v0: the settings of the default policy, hour by hour. Also which settings there are to turn, and how far."""
