"""Limits: how many at once, how fast, and in what order."""
