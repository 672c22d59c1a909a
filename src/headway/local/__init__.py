"""This machine as a cluster: real training processes on logical nodes, with cpu limits. No other machine needed."""
