"""This machine as a cluster: real training processes on logical nodes, with limits of cpu and memory."""
