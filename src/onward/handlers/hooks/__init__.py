"""What an application runs around its jobs and enqueues, and when a worker starts and stops."""
