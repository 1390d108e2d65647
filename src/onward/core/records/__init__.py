"""Values of what is recorded about jobs: the audit's hash chain, usage, artifacts."""
