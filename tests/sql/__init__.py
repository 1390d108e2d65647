"""Tests of the SQL catalogue: the texts themselves, without a database."""
