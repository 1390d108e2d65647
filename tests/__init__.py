"""The tests: rules in milliseconds, one contract over every store and kind of connection."""
