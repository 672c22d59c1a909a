"""Virtual time: a cluster that jumps from event to event. Knows the truth that policies only estimate."""
