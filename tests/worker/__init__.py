"""Workers: loops, executors and processes."""
