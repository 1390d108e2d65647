"""Links that open one artifact for a time: a signed token that names it, its org, its content and its end.

One algorithm, and one error for all that can be wrong: who tries learns nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onward.core.jobs.ids import is_id
from onward.core.records.artifact import Artifact
from onward.errors import InvalidLink, MissingExtra

_ALGORITHM = "HS256"
_AUDIENCE = "onward:artifact"
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class Link:
    """What a token that is ours says."""

    artifact_id: str
    org_id: str | None
    sha256: str


def signed(artifact: Artifact, expires_at: datetime, secret: str) -> str:
    """Make a token."""
    claims = {
        "aud": _AUDIENCE,
        "sub": artifact.id,
        "org": artifact.org_id,
        "sha256": artifact.sha256,
        "exp": int(expires_at.timestamp()),
    }
    token: str = _jwt().encode(claims, secret, algorithm=_ALGORITHM)
    return token


def read_link(token: Any, secret: str, at: datetime) -> Link:
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
            # Its end is compared below, with the caller's clock.
            options={"require": ["exp", "aud", "sub"], "verify_exp": False},
        )
    except jwt.PyJWTError:
        raise invalid() from None
    match claims:
        case {"sub": str(artifact_id), "org": str() | None as org_id, "sha256": str(sha256), "exp": int(end)}:
            if is_id(artifact_id) and at.timestamp() < end:
                return Link(artifact_id, org_id, sha256)
    raise invalid()


def invalid() -> InvalidLink:
    """Say no more than that the link does not work."""
    return InvalidLink("the link is not valid, or no longer; ask for a new one")


def _jwt() -> Any:
    try:
        import jwt
    except ImportError as error:
        raise MissingExtra('links to artifacts need PyJWT: pip install "onward[links]"') from error
    return jwt
