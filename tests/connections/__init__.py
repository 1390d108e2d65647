"""Tests of what a caller may hand to `within()`."""
