"""A job as people write it: what a jobs file and a TrainingJob have in common."""
