"""The worker: claims jobs, runs their handlers, and writes what became of them."""
