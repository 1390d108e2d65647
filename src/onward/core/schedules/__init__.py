"""Schedules: what they enqueue, at which instants, by which clocks."""
