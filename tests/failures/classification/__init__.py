"""What becomes of an attempt that raised."""
