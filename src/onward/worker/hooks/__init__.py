"""Runs what an application adds to its workers: functions around attempts, resources, start and stop."""
