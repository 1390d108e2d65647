"""Flows: followers, batches, signals."""
