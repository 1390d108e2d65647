"""What speaks to PostgreSQL below psycopg's cursors."""
