"""Pods: their bodies, what they hold, where they may run, and how ours are known again. Pure."""
