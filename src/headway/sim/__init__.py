"""The simulated cluster: virtual time that jumps from event to event. It knows the truth that policies estimate."""
