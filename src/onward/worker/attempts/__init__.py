"""Runs the attempts of jobs."""
