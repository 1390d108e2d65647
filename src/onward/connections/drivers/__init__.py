"""One adapter for each kind of connection."""
