"""The settings of an application for its artifacts: their place, the size kept inline, and the secret."""

from __future__ import annotations

import os
import time
from pathlib import Path

from onward.blobs import Blobs, open_blobs
from onward.core.jobs.ids import IdMaker
from onward.core.policy.policies import Policies
from onward.core.policy.settings import check_secret
from onward.errors import InvalidSetting
from onward.stores import AsyncStore, Store
from onward.stores.sqlite.sqlite_store import AsyncSqliteStore, SqliteStore

_MOST_INLINE = 2**20
_DIRECTORY = "onward-artifacts"

new_artifact_id = IdMaker(time.time_ns, os.urandom).make
"""Make the id of an artifact: a UUIDv7, like the id of a job."""


class ArtifactSettings:
    """The application's settings for artifacts or, where they are unset, those of the environment."""

    def __init__(self, store: Store | AsyncStore, policies: Policies) -> None:
        self._store = store
        self._policies = policies

    @property
    def inline_bytes(self) -> int:
        """The largest size of content that is kept in the database."""
        most = self._policies.settings.artifact_inline_bytes
        if type(most) is not int or not 0 <= most <= _MOST_INLINE:
            raise InvalidSetting(f"artifact_inline_bytes is {most!r:.80}; give 0 to {_MOST_INLINE}")
        return most

    @property
    def blobs(self) -> Blobs:
        """The place for larger content: the setting, ONWARD_ARTIFACTS, or beside the database."""
        return open_blobs(
            self._policies.settings.artifacts or os.environ.get("ONWARD_ARTIFACTS") or self._default()
        )

    @property
    def secret(self) -> str:
        """The secret that signs links: the setting, ONWARD_ARTIFACT_SECRET, or …_SECRET_FILE's content."""
        found = self._policies.settings.artifact_secret or os.environ.get("ONWARD_ARTIFACT_SECRET")
        file = os.environ.get("ONWARD_ARTIFACT_SECRET_FILE")
        if not found and file:
            found = Path(file).read_text(encoding="utf-8").strip()
        if not found:
            raise InvalidSetting(
                "links to artifacts need a secret; set artifact_secret= or ONWARD_ARTIFACT_SECRET, such as "
                "what this prints: openssl rand -hex 32"
            )
        check_secret(found)
        return found

    def _default(self) -> str:
        if isinstance(self._store, SqliteStore | AsyncSqliteStore):
            return str(self._store.file.path.with_name(_DIRECTORY))
        return _DIRECTORY
