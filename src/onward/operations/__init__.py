"""Every read and every change, as generators of statements: no I/O, so one definition serves all callers."""
