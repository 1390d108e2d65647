"""Loops that run beside the claims."""
