"""Commands for jobs: enqueueing and payloads."""
