"""Sizes of jobs: what follows from how they scale and where they are. Computed when asked, and handed on."""
