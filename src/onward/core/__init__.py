"""What Onward decides, as pure functions of values: no I/O, clock, dice or logging in here."""
