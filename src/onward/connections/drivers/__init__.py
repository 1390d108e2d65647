"""Adapters, one for each kind of connection."""
