"""The loop that drives every cluster, and the book of estimates. Pure, save for what the given cluster does."""
