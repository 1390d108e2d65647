"""Limits: limits, queue policies, fairness, pauses and the gate."""
