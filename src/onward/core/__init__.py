"""The rules of Onward as pure functions of values: no I/O, clock, dice or logging in here."""
