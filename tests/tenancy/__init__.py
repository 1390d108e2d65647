"""What keeps the jobs of one org from another."""
