"""Commands that learn from finished jobs: `learn`, `tune`, `learn train`."""
