"""Child processes that run jobs."""
