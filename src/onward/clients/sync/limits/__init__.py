"""Generated sync twins; nothing here is written by hand."""
