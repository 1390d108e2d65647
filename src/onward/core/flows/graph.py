"""The graph of a flow: its jobs, and which of them waits for which."""

from __future__ import annotations

import msgspec

from onward.core.jobs.ids import JobId
from onward.core.jobs.job import Job


class Link(msgspec.Struct, frozen=True):
    """One job waits, or has waited, for another; `parent_state` is None until the link is resolved."""

    job_id: JobId
    parent_id: JobId
    needs: str
    on_failure: str
    parent_state: str | None


class Graph(msgspec.Struct, frozen=True):
    """Jobs and the links between them; not `complete` if there are more than `limit`."""

    jobs: list[Job]
    links: list[Link]
    complete: bool
