"""Commands for records: the audit."""
