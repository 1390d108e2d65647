"""Claiming jobs from the queues."""
