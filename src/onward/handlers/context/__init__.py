"""What a handler is given while it runs: the Context, and what stands behind its methods."""
