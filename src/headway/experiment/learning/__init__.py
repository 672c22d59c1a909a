"""Does feedback improve decisions: the learning curve, and the proof with its plan."""
