"""The hash chain over the audit: each link covers the digest of one row and the link before it.

The digest covers every column of a row, its number included, so an edited, moved or swapped row is detected.
The link covers the one before it, so a removed or inserted row is detected, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal

import msgspec

from onward.errors import InvalidSetting

RECORD = (
    "seq", "at", "event", "action", "job_id", "job_type", "org_id", "project_id", "actor_type", "actor_id",
    "request_id", "correlation_id", "attempt", "lease", "worker_id", "detail",
)  # fmt: skip
"""The columns of an audit row, in the order in which the SQL statements return them."""

PRUNED = "audit.pruned"

_DIGEST = re.compile(r"[0-9a-f]{64}")
_encode = msgspec.json.Encoder(order="deterministic").encode


class Head(msgspec.Struct, frozen=True):
    """The end of a chain; a copy that is kept elsewhere reveals that later links were cut off."""

    position: int = 0
    link: str = "0" * 64

    def __str__(self) -> str:
        return f"{self.position}:{self.link}"

    @classmethod
    def read(cls, text: str) -> Head:
        """Return the head that the text POSITION:LINK describes; raise InvalidSetting for any other text."""
        position, _, link = text.strip().partition(":")
        if not (position.isascii() and position.isdecimal() and _DIGEST.fullmatch(link)):
            raise InvalidSetting(f"head is {text!r:.80}; give POSITION:LINK as a verification printed it")
        return cls(int(position), link)


FIRST = Head()


class ChainLink(msgspec.Struct, frozen=True):
    """One row of the chain; `pruned` is the number of the audit event that records the row's removal."""

    position: int
    seq: int
    digest: str
    link: str
    pruned: int | None = None


class Fault(msgspec.Struct, frozen=True):
    """One fault of the chain: `seq` is its place in the audit, `position` its place in the chain."""

    what: Literal["edited", "removed", "inserted", "restored", "broken", "cut", "unaccounted"]
    message: str
    seq: int | None = None
    position: int | None = None


class Sealed(msgspec.Struct, frozen=True):
    """How many rows were added, where the chain ends now, and whether more are waiting.

    Up to `floor` every row is in the chain; up to `upto` rows were searched.
    """

    count: int
    head: Head
    floor: int
    upto: int
    done: bool


class AuditPruned(msgspec.Struct, frozen=True):
    """How many rows were removed, and the digest over them; `seq` is the event that records it."""

    count: int
    digest: str | None = None
    seq: int | None = None


class AuditVerified(msgspec.Struct, frozen=True):
    """How many of the `total` links were compared, and at most 1000 of the faults that were found."""

    links: int
    total: int
    head: Head
    faults: tuple[Fault, ...]

    @property
    def intact(self) -> bool:
        """Whether nothing was edited, removed, inserted or reordered."""
        return not self.faults


def digest_of(row: Sequence[Any]) -> str:
    """Return the digest of an audit row with the columns of `RECORD`."""
    # Nulls are left out, so that a new column does not change the digests of old rows.
    filled = {name: value for name, value in zip(RECORD, row, strict=True) if value is not None}
    return sha256(_encode(filled)).hexdigest()


def digest_of_all(digests: Iterable[str]) -> str:
    """Return one digest for rows that are removed together, in the order of their numbers."""
    total = sha256()
    for digest in digests:
        total.update(digest.encode())
    return total.hexdigest()


def links(head: Head, rows: Iterable[Sequence[Any]]) -> Iterator[ChainLink]:
    """Yield the links that continue a chain over these rows."""
    position, last = head.position, head.link
    for row in rows:
        position, digest = position + 1, digest_of(row)
        last = _next(last, digest)
        yield ChainLink(position, int(row[0]), digest, last)


def _next(last: str, digest: str) -> str:
    return sha256(f"{last}{digest}".encode()).hexdigest()


@dataclass(slots=True)
class Gap:
    """The removed rows that name one removal event, compared with what the event states."""

    count: int = 0
    total: Any = field(default_factory=sha256)
    recorded: Mapping[str, Any] = field(default_factory=dict)

    def is_accounted_for(self) -> bool:
        """Whether the event accounts for exactly these rows; one from before the chain accounts for none."""
        event = self.recorded
        if not event.get("chained"):
            return self.count == 0
        return (event.get("count"), event.get("digest")) == (self.count, self.total.hexdigest())


class ChainCheck:
    """The verification of a chain from its beginning, page by page; it keeps only sums in memory."""

    def __init__(self, kept: Head | None = None) -> None:
        self.head = FIRST
        self._kept = kept
        self._gaps: dict[int, Gap] = {}

    def follow(self, page: Iterable[tuple[ChainLink, Sequence[Any] | None]]) -> Iterator[Fault]:
        """Yield the faults found by comparing the next links with their rows."""
        for link, row in page:
            if link.position == self.head.position:
                yield Fault("inserted", "two rows have this number", link.seq, link.position)
                continue
            yield from self._step(link)
            yield from self._compare(link, row)
            self.head = Head(link.position, link.link)
            if self._kept is not None and self._kept.position == link.position != 0:
                if self._kept.link != link.link:
                    yield Fault(
                        "broken", "the chain is not the one whose head was kept", link.seq, link.position
                    )
                self._kept = None

    def _step(self, link: ChainLink) -> Iterator[Fault]:
        missing = link.position - self.head.position - 1
        if missing:
            lost = f"{missing} links are missing before position {link.position}"
            yield Fault("broken", lost, link.seq, link.position)
        elif link.link != _next(self.head.link, link.digest):
            yield Fault("broken", "the link does not follow from the one before", link.seq, link.position)

    def _compare(self, link: ChainLink, row: Sequence[Any] | None) -> Iterator[Fault]:
        if link.pruned is not None:
            gap = self._gaps.setdefault(link.pruned, Gap())
            gap.count += 1
            gap.total.update(link.digest.encode())
            if row is not None:
                yield Fault(
                    "restored", "the row was removed by age, and is there again", link.seq, link.position
                )
        elif row is None:
            yield Fault("removed", "the row is gone", link.seq, link.position)
        elif digest_of(row) != link.digest:
            yield Fault("edited", "the row is not the one that was sealed", link.seq, link.position)
        elif row[2] == PRUNED:
            detail = msgspec.json.decode(row[-1] or "null")
            self._gaps.setdefault(link.seq, Gap()).recorded = detail if isinstance(detail, dict) else {}

    def end(self, head: Head) -> Iterator[Fault]:
        """Yield the faults of the whole chain: a wrong end, and removed rows that no event accounts for."""
        if head != self.head:
            yield Fault("cut", f"the chain ends at position {self.head.position}, not {head.position}")
        if self._kept is not None and self._kept.position:
            yield Fault(
                "cut", f"the chain does not reach position {self._kept.position}, whose link was kept"
            )
        for seq, gap in self._gaps.items():
            if not gap.is_accounted_for():
                yield Fault("unaccounted", f"{gap.count} rows are gone that no event accounts for", seq)
