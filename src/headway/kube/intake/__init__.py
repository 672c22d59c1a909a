"""Jobs that are not on the board yet: read, checked, and how their pods will be. Pure, but for the table of them."""
