"""Inputs: checks and parsers for the values that callers pass."""
