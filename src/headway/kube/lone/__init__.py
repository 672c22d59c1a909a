"""Pods that name Headway as their scheduler and are of no TrainingJob: jobs of one, bound and never deleted."""
