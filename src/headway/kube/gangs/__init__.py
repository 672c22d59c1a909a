"""A gang as a value: what it wants and has, what happens to it, and what is to be done next. Pure."""
