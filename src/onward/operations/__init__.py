"""Every change and question, as generators of statements: no I/O, so one definition serves all callers."""
