# Generated from src/onward/clients/work/worker_artifacts.py by tools/make_sync.py. Edit that file instead.
"""The artifacts of running jobs: the files that they leave, and those that they read."""

from __future__ import annotations

from functools import partial
from typing import IO, Unpack

from onward.blobs.content import ArtifactOptions, Content, Source
from onward.clients.records.artifact_settings import new_artifact_id
from onward.clients.sync.binding import Binding
from onward.clients.sync.records.artifact_content import ArtifactContent
from onward.core.inputs.checks import check_kind
from onward.core.jobs.job import Job
from onward.core.records.artifact import Artifact, NewArtifact
from onward.errors import LeaseLost
from onward.operations.records import artifacts


class WorkerArtifacts:
    """Stores the files that running jobs make, and opens those of their org."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run
        self._policies = binding.policies
        self._content = ArtifactContent(binding)

    def add(
        self, job: Job, name: str, data: Content | None = None, **options: Unpack[ArtifactOptions]
    ) -> Artifact:
        """Store a file that a claimed job made.

        Raises InvalidSetting, and LeaseLost if another worker holds the job by now.
        """
        check_kind("job", job, Job, "give the job that claim() returned")
        text, path = options.get("text"), options.get("path")
        expires = options.get("expires")
        new = NewArtifact.of(
            name,
            text=text is not None,
            content_type=options.get("content_type"),
            roles=options.get("roles"),
            expires=self._policies.category_of(job).artifact_retention if expires is None else expires,
        )
        content = self._content.store(job.org_id, Source(path=path, data=data, text=text))
        made = self._run(partial(artifacts.add_of_job, new_artifact_id(), new, content, job))
        if made is None:
            # Raised after the operation: inside it, the error would roll back the audit of the refusal.
            raise LeaseLost(
                f"job {job.id}: another worker holds it, or it has ended; artifact {name!r:.80} was refused"
            )
        return made

    def open(self, job: Job, artifact: str, *, role: str | None = None) -> IO[bytes]:
        """Return the content of an artifact of the job's org as an open file: a checked copy.

        Raises ArtifactNotFound, ArtifactCorrupt, InvalidSetting, and NotAllowed for another role.
        """
        return self._content.open(self._content.find_for(artifact, role, job=job))
