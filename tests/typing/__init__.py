"""What type checkers say about the use of job types."""
