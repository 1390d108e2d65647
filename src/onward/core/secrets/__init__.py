"""Detection and redaction of secrets."""
