"""Links that open one artifact for a time: a signed token with the artifact, its org, its hash and an expiry.

There is one algorithm, and one error for every fault, so that a failed attempt reveals nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onward.core.jobs.ids import is_id
from onward.core.records.artifact import Artifact, ArtifactRef
from onward.errors import InvalidLink, MissingExtra

_ALGORITHM = "HS256"
_AUDIENCE = "onward:artifact"
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class DownloadLink:
    """The claims of a token that we signed."""

    artifact_id: str
    org_id: str | None
    sha256: str


def signed(artifact: Artifact, expires_at: datetime, secret: str) -> str:
    """Return a signed token for an artifact."""
    claims = {
        "aud": _AUDIENCE,
        "sub": artifact.id,
        "org": artifact.org_id,
        "sha256": artifact.sha256,
        "exp": int(expires_at.timestamp()),
    }
    token: str = _jwt().encode(claims, secret, algorithm=_ALGORITHM)
    return token


def link_to(artifact: Artifact | str, base_url: str, token: str) -> str:
    """Return the URL with the id of an artifact in the place of `{id}`, and with its token."""
    url = base_url.replace("{id}", ArtifactRef.of(artifact).id)
    return f"{url}{'&' if '?' in url else '?'}t={token}"


def read_link(token: Any, secret: str, at: datetime) -> DownloadLink:
    """Read a token; raises InvalidLink."""
    jwt = _jwt()
    if not isinstance(token, str) or len(token) > _LONGEST or not token.isascii():
        raise invalid()
    try:
        claims = jwt.decode(
            token,
            secret,
            algorithms=[_ALGORITHM],
            audience=_AUDIENCE,
            # The expiry is checked below, by the caller's clock.
            options={"require": ["exp", "aud", "sub"], "verify_exp": False},
        )
    except jwt.PyJWTError:
        raise invalid() from None
    match claims:
        case {"sub": str(artifact_id), "org": str() | None as org_id, "sha256": str(sha256), "exp": int(end)}:
            if is_id(artifact_id) and at.timestamp() < end:
                return DownloadLink(artifact_id, org_id, sha256)
    raise invalid()


def invalid() -> InvalidLink:
    """Return the one error for every link that does not work."""
    return InvalidLink("the link is not valid, or no longer; ask for a new one")


def _jwt() -> Any:
    try:
        import jwt
    except ImportError as error:
        raise MissingExtra('links to artifacts need PyJWT: pip install "onward[links]"') from error
    return jwt
