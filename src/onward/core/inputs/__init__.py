"""Checks and readings of what callers pass."""
