"""Runs jobs in child processes."""
