"""The command line, in this process and as real programs."""
