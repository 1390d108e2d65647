"""Job types and their handlers: defined, checked and enqueued."""
