"""What an enqueue returns."""
