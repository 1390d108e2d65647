"""Classification of the errors that handlers raise: an ordered list of named rules."""
