"""The command line `onward`."""
