"""Commands for schedules and their occurrences."""
