"""The parts of a client, one noun each, such as `client.keys` and `client.artifacts`.

A part has no connection of its own: it builds operations, and the client's binding runs them.
`artifact_content`, `artifact_files`, `artifact_settings`, `links` and `blocking` serve the artifacts.
"""
