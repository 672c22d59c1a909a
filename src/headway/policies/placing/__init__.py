"""On which nodes replicas go: what fits, packed, spread, or by affinity."""
