"""Failures: classification, breakers, dead letters, alerts."""
