"""Code for type checkers to read; it is never run."""
