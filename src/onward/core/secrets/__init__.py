"""What is a secret, and how it is hidden."""
