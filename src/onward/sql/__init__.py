"""SQL: the catalogue of named statements and the numbered migrations."""
