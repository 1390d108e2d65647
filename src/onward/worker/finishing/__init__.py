"""Writes the outcomes of attempts."""
