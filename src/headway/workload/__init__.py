"""Jobs and clusters read from files. Nothing here runs or decides anything."""
