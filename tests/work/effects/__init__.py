"""Effects: what a retry does not repeat, and what it does not compute again."""
