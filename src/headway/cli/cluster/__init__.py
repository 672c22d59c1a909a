"""Commands of a Kubernetes cluster, and of the lab that is one."""
