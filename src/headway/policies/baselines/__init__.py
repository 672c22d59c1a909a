"""Published and plain policies that ours are compared with; one file each."""
