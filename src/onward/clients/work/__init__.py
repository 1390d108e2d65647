"""Work: leases, claims, finishes, retries, effects, waits."""
