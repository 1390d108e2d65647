"""Writing what attempts came to."""
