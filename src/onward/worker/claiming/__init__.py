"""Claims jobs from the queues."""
