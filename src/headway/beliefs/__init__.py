"""What finished jobs have taught, as files: made from logs and traces, given to a run, kept by a live one."""
