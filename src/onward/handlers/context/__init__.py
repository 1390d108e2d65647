"""What a handler is given while it runs."""
