"""What jobs, sizes and places are worth: times, shares, deadlines, neighbours. Nothing here decides."""
