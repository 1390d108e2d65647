"""Jobs: enqueueing, keys, listing, cancelling, subjects."""
