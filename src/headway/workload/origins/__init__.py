"""Where published traces come from, how to make the files that Headway reads of them, and whether a folder has them."""
