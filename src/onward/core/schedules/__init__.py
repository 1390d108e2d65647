"""Schedules: cron, time zones, occurrences, firing."""
