"""Job types, their signatures and handles."""
