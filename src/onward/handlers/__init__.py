"""Job types and the functions that run them: defined, checked, enqueued."""
