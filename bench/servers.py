"""The PostgreSQL that is measured: one that waits for the disk, and has been at work for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.postgres import start_postgres

__all__ = ["used_server"]

# So many files of the log, of 16 MB each, are kept to be written over; twice as many are written between two
# checkpoints, of which each makes all that follows it write whole pages.
FILES = 128


@contextmanager
def used_server() -> Iterator[str]:
    """Start a durable server whose log is large and has old files to write over; gives its address.

    A new server has none. It makes each file when it comes to it, and all who write wait meanwhile, as they
    do while a checkpoint syncs the tables: in the slowest hundredth that would be all that is measured.
    """
    with start_postgres(durable=True) as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            for name, files in (("max_wal_size", 2 * FILES), ("min_wal_size", FILES)):
                connection.execute(f"ALTER SYSTEM SET {name} = '{16 * files}MB'".encode())
            connection.execute("SELECT pg_reload_conf()")
            for _ in range(FILES):
                connection.execute("SELECT pg_logical_emit_message(false, 'bench', 'x')")
                connection.execute("SELECT pg_switch_wal()")
            connection.execute("CHECKPOINT")
        yield server.url()
