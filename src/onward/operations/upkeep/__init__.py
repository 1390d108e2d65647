"""Upkeep: pruning, sizes, migrations, doctor."""
