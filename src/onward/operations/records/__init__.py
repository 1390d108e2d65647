"""Records: audit, usage, artifacts."""
