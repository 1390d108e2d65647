"""Job ids: UUIDv7 as canonical lower-case text, so that ids sort in the order of their creation.

Each id that an `IdMaker` makes is greater than all before it, even when its clock steps back. The clock and
the source of random bytes are passed in.
"""

from __future__ import annotations

import re
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, overload
from uuid import UUID

from msgspec import Meta

from onward.core.inputs.wire_form import Form
from onward.errors import InvalidJob, InvalidSetting

_PATTERN = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"

JobId = Annotated[str, Meta(extra_json_schema={"format": "uuid", "pattern": f"^{_PATTERN}$"})]
"""A UUIDv7 in its canonical form: 36 characters, lower-case, with hyphens."""

AnyJobId = Annotated[JobId | UUID, Form(JobId)]
"""A job id as callers give it: as text in any usual form, or as a UUID."""

_CANONICAL = re.compile(_PATTERN)
_BARE = re.compile(r"[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}")
_BEGINNING = re.compile(r"[0-9a-f]{1,32}")
_DIGITS = 32
LOWEST_ID: JobId = "00000000-0000-0000-0000-000000000000"
HIGHEST_ID: JobId = "ffffffff-ffff-ffff-ffff-ffffffffffff"
"""Bounds of every range: no id is above, because the bits of its version are fixed."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MILLISECONDS = (1 << 48) - 1
_NANOSECONDS = 1_000_000


class IdMaker:
    """Makes ids that strictly increase within the process, across threads and when the clock steps back."""

    __slots__ = ("_clock", "_dice", "_last", "_lock")

    def __init__(self, clock: Callable[[], int], dice: Callable[[int], bytes]) -> None:
        """Set the clock, in nanoseconds since the epoch, and `dice`, which returns `n` random bytes."""
        self._clock = clock
        self._dice = dice
        self._last = 0
        self._lock = threading.Lock()

    def make(self) -> JobId:
        """Make one id."""
        # Random bytes are drawn for each id: every fork of this process would share a pool of them.
        return _format(self._reserve(1), int.from_bytes(self._dice(8), "big"))

    def make_many(self, count: int) -> list[JobId]:
        """Make `count` ids, in increasing order."""
        return list(self.promise(count))

    def promise(self, count: int) -> Sequence[JobId]:
        """Reserve `count` ids, in increasing order; each is formatted when the caller reads it.

        A caller that stores thousands of jobs can send the first before the last id is formatted.
        """
        if count < 1:
            return ()
        return _Promised(self._reserve(count), struct.unpack(f">{count}Q", self._dice(8 * count)))

    def _reserve(self, count: int) -> int:
        """Reserve the next `count` ticks of 1/4096 ms (RFC 9562, 6.2, method 3); return the first."""
        milliseconds, rest = divmod(self._clock(), _NANOSECONDS)
        now = milliseconds << 12 | (rest << 12) // _NANOSECONDS
        with self._lock:
            # When the clock stands still or steps back, the ticks continue as a counter.
            first = max(now, self._last + 1)
            self._last = first + count - 1
        return first


class _Promised(Sequence[JobId]):
    """Reserved ids, formatted up to the highest one that was read."""

    def __init__(self, first: int, randoms: tuple[int, ...]) -> None:
        self._first = first
        self._randoms = randoms
        self._written: list[JobId] = []

    def __len__(self) -> int:
        return len(self._randoms)

    @overload
    def __getitem__(self, place: int) -> JobId: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[JobId]: ...

    def __getitem__(self, place: int | slice) -> JobId | Sequence[JobId]:
        places = range(len(self))[place]
        if isinstance(places, int):
            return self._up_to(places)[places]
        written = self._up_to(max(places[0], places[-1])) if places else []
        return [written[at] for at in places]

    def __iter__(self) -> Iterator[JobId]:
        return iter(self._up_to(len(self) - 1))

    def _up_to(self, last: int) -> list[JobId]:
        written = self._written
        since = len(written)
        if last >= since:
            randoms = enumerate(self._randoms[since : last + 1], self._first + since)
            # A new list, never an append: another thread may be here too, and then builds an equal list.
            self._written = written = [*written, *[_format(tick, random) for tick, random in randoms]]
        return written


def _format(tick: int, random: int) -> JobId:
    """Lay out a tick and 62 random bits as a UUIDv7."""
    # One format call takes half the time of a UUID object and its text.
    return "%08x-%04x-7%03x-%04x-%012x" % (  # noqa: UP031 - measured faster than the f-string
        tick >> 28,
        tick >> 12 & 0xFFFF,
        tick & 0xFFF,
        0x8000 | random >> 48 & 0x3FFF,
        random & 0xFFFFFFFFFFFF,
    )


def is_id(text: str) -> bool:
    """Whether the text is a job id in its canonical form."""
    return _CANONICAL.fullmatch(text) is not None


def normalise_id(value: str | UUID, *, of: Literal["job", "batch"] = "job") -> JobId:
    """Return the canonical form of an id; accepts upper case, no hyphens, and UUID objects."""
    text = str(value) if isinstance(value, UUID) else value
    if isinstance(text, str):
        text = text.lower()
        if is_id(text):
            return text
        if _BARE.fullmatch(text):
            return _hyphened(text)
    maker = "enqueue()" if of == "job" else "enqueue_batch()"
    raise InvalidJob(f"{value!r:.80} is not a {of} id; give a UUIDv7, such as one that {maker} returned")


def id_range(beginning: str) -> tuple[JobId, JobId]:
    """Return the lowest text of all ids that start with `beginning`, and a text above all of them."""
    digits = beginning.lower().replace("-", "")
    if not _BEGINNING.fullmatch(digits):
        raise InvalidJob(f"{beginning!r:.80} is not the beginning of a job id; give its first hex digits")
    low = int(digits.ljust(_DIGITS, "0"), 16)
    # No id is the highest of all numbers, because the bits of its version are fixed.
    above = min(low + (1 << 4 * (_DIGITS - len(digits))), (1 << 4 * _DIGITS) - 1)
    return _hyphened(f"{low:032x}"), _hyphened(f"{above:032x}")


def next_id(job_id: JobId) -> JobId:
    """Return the lowest text above an id that could be an id."""
    return _hyphened(f"{int(job_id.replace('-', ''), 16) + 1:032x}")


def _hyphened(text: str) -> str:
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def id_time(job_id: JobId) -> datetime:
    """Return the time at which an id was made, to the millisecond, in UTC."""
    try:
        return _EPOCH + int(normalise_id(job_id).replace("-", "")[:12], 16) * _MILLISECOND
    except OverflowError:
        raise InvalidJob(f"job id {job_id!r} lies after the year 9999; give one that Onward made") from None


def first_id_at(instant: datetime) -> JobId:
    """Return the lowest id of a millisecond, for ranges of ids; before 1970, the lowest id of all."""
    if instant.tzinfo is None:
        raise InvalidSetting(f"{instant!r} has no time zone; give one, such as datetime.now(UTC)")
    milliseconds = (instant - _EPOCH) // _MILLISECOND
    return _format(min(max(milliseconds, 0), _MILLISECONDS) << 12, 0)
