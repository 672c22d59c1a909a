"""The terminal: sentences, tables, live views, times of day, help."""
