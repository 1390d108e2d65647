"""The parts of a client, one noun each, such as `client.keys` and `client.artifacts`.

A part has no connection of its own: it makes operations, and its client runs them. `reach_async` is what
every client begins with; `shelf`, `keeping`, `links` and `blocking` serve the artifacts.
"""
