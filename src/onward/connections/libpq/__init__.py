"""Calls to PostgreSQL through libpq, below psycopg's cursors."""
