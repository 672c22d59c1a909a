"""The Kubernetes cluster: TrainingJobs become gangs of pods, bound to the nodes of the plan. No client library."""
