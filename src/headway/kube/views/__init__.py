"""What is shown of a gang: its row on the board, its status, why it waits."""
