"""One TrainingJob: its spec, what is meant for it, its status and its pods. Pure."""
