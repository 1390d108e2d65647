"""Commands for failures: circuit breakers, dead letters, alerts."""
