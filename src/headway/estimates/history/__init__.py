"""What finished and running jobs have taught: paces and scaling by user, training times, starts and stops."""
