"""What the API server last said of nodes and pods, indexed: what is held, what is lost, what is used."""
