"""An artifact: a file that a job reads or writes, identified by its id and by the sha256 of its content.

Its name and content type are only shown to people; neither ever becomes a path.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

import msgspec

from onward.core.inputs.checks import check_kind, zoned
from onward.core.inputs.duration import duration, written
from onward.core.inputs.fields import check_text
from onward.core.inputs.wire_form import Form
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.page import Cursor
from onward.errors import ArtifactCorrupt, InvalidJob, InvalidSetting, NotAllowed

DATABASE = "database"
"""The place of an artifact whose content is small enough for its database row."""

Expiry = Annotated[timedelta | float | str | datetime, Form(float | str)]
"""When an artifact is no longer kept: after a duration, or at an instant, which may be text of RFC 3339."""

LONGEST_NAME = 255
"""The longest name of an artifact, in bytes of UTF-8."""

_LONGEST_TYPE = 255
_LONGEST_ROLE = 200
_MOST_ROLES = 20
_BINARY = "application/octet-stream"
# It is sent as an HTTP header, so it must not contain a line break.
_CONTENT_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(;[ -~]*)?", re.ASCII)
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}T")
_REF = re.compile(r"artifact:([0-9a-fA-F-]{32,36}):sha256:([0-9a-f]{64})")


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A stored artifact; the client reads its content and verifies the checksum."""

    id: str
    org_id: str | None
    project_id: str | None
    job_id: str | None
    lease: int | None
    attempt: int | None
    name: str
    content_type: str
    size: int
    sha256: str
    place: str
    roles: tuple[str, ...] | None
    actor_type: str | None
    actor_id: str | None
    created_at: datetime
    expires_at: datetime | None

    @property
    def ref(self) -> str:
        """The reference to put into a payload: reading by it returns this content, or raises an error."""
        return f"artifact:{self.id}:sha256:{self.sha256}"

    def require_role(self, role: str | None) -> None:
        """Raise NotAllowed unless the artifact is open to its whole org, or to this role."""
        if self.roles is not None and role not in self.roles:
            reader = "without a role" if role is None else f"as {role!r:.80}"
            raise NotAllowed(f"artifact {self.id} can't be read {reader}; it is for {', '.join(self.roles)}")


AnyArtifact = Annotated[Artifact | str | UUID, Form(str)]
"""An artifact, its id, or its ref."""


class ArtifactRef(msgspec.Struct, frozen=True):
    """The id of an artifact and, if the caller gave its ref, the sha256 that its content must have."""

    id: str
    sha256: str | None = None

    @classmethod
    def of(cls, value: Any) -> ArtifactRef:
        """Return the reference for an id, a ref or an Artifact; raise InvalidSetting for anything else."""
        if isinstance(value, Artifact):
            return cls(value.id, value.sha256)
        if isinstance(value, str) and (found := _REF.fullmatch(value)):
            return cls(normalise_id(found[1]), found[2])
        try:
            return cls(normalise_id(value))
        except InvalidJob:
            raise InvalidSetting(f"{value!r:.80} is no artifact; give its id or its ref") from None

    def require(self, artifact: Artifact) -> None:
        """Raise ArtifactCorrupt if the stored sha256 differs from that of the ref."""
        if self.sha256 not in {None, artifact.sha256}:
            raise ArtifactCorrupt(
                f"artifact {artifact.id} has sha256 {artifact.sha256}, and it was asked for by {self.sha256}"
            )


class NewArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """The checked properties of an artifact that is about to be stored."""

    name: str
    content_type: str
    roles: tuple[str, ...] | None
    keep_for: timedelta | None
    keep_until: datetime | None

    @classmethod
    def of(
        cls,
        name: str,
        *,
        text: bool,
        content_type: str | None,
        roles: Sequence[str] | None,
        expires: Expiry | None,
    ) -> NewArtifact:
        """Return the properties that a caller gave; raise an error if one is invalid."""
        check_text("an artifact's name", name, longest=LONGEST_NAME)
        keep, until = _read_expiry(expires)
        if content_type is not None:
            check_kind("content_type", content_type, str, "give one such as text/csv")
        content_type = content_type or ("text/plain; charset=utf-8" if text else _BINARY)
        if len(content_type) > _LONGEST_TYPE or not _CONTENT_TYPE.fullmatch(content_type):
            raise InvalidSetting(f"content_type is {content_type!r:.80}; give one such as text/csv")
        return cls(name=name, content_type=content_type, roles=_roles(roles), keep_for=keep, keep_until=until)


class ArtifactsVerified(msgspec.Struct, frozen=True):
    """How many artifacts were read again, those whose content has changed, and where to continue."""

    checked: int
    corrupt: tuple[Artifact, ...]
    next_cursor: Cursor | None


class ArtifactsPruned(msgspec.Struct, frozen=True):
    """How many expired artifacts were pruned, and how many unreferenced files were removed."""

    expired: int
    removed: int


class StoredContent(msgspec.Struct, frozen=True):
    """Stored content: `data` in the row itself, in base64, or at `place`."""

    sha256: str
    size: int
    place: str = DATABASE
    data: str | None = None


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of an artifact that was not made by a running job."""

    org_id: str | None = None
    project_id: str | None = None
    job_id: JobId | None = None


def _read_expiry(expires: Any) -> tuple[timedelta | None, datetime | None]:
    """Return how long an artifact is kept, or until when."""
    if expires is None:
        return None, None
    try:
        instant = isinstance(expires, str) and _INSTANT.match(expires) and datetime.fromisoformat(expires)
    except ValueError:
        raise InvalidSetting(f"expires is {expires!r:.80}; give an instant as RFC 3339 has it") from None
    if instant or isinstance(expires, datetime):
        return None, zoned("expires", instant or expires)
    keep = duration("expires", expires)
    if keep <= timedelta():
        raise InvalidSetting(f"expires is {written(expires)}; give a time in the future")
    return keep, None


def _roles(roles: Any) -> tuple[str, ...] | None:
    if roles is None:
        return None
    if isinstance(roles, str) or not isinstance(roles, Sequence) or not 0 < len(roles) <= _MOST_ROLES:
        raise InvalidSetting(f"roles is {roles!r:.80}; give a list of 1 to {_MOST_ROLES}, or leave it out")
    for role in roles:
        check_text("a role", role, longest=_LONGEST_ROLE)
    return tuple(roles)
