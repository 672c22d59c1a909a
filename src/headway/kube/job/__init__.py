"""One TrainingJob: its spec, its intended state, its status and its pods. Pure."""
