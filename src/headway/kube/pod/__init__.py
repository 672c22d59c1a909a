"""What a pod holds and where it may run, as the Kubernetes scheduler sees it. Pure: functions over narrow objects."""
