"""Artifacts: what is stored is what is read, by those who may."""
