"""Commands for upkeep: pruning, sizes, migrations, doctor, version."""
