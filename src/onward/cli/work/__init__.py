"""Commands that run jobs, and those for the effects of jobs."""
