"""Models of speed that the simulator, the policies and the books share. Pure."""
