"""The parts of a client, one noun each: `client.keys`, `client.audit`, `client.usage`, `client.artifacts`.

A part has no connection of its own: it makes operations, and its client runs them.
"""
