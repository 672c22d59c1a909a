"""Kubernetes behind the seam: TrainingJobs become gangs of pods, bound where the plan says. No client library."""
