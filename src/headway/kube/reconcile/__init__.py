"""From what is meant and what is there to what to do next. Pure."""
