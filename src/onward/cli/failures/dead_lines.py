"""Format dead letters and their groups as lines for people and as JSON values for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from onward.cli.views.text import clean_lines, say, short, table
from onward.core.inputs.duration import lasting
from onward.core.inputs.plain_text import one_line as clean

if TYPE_CHECKING:
    from onward.core.failures.dead_letter import DeadGroup, DeadLetter, FixPreview
    from onward.core.policy.policies import Policies

_LONGEST = 80
_LEAST = 4


def group_table(groups: Sequence[DeadGroup]) -> list[str]:
    """Return a heading and one line for each group; no lines if there are no groups."""
    digits = _digits([group.fingerprint for group in groups])
    rows = [
        [group.fingerprint[:digits], group.job_type, _cause(group), _count(group), _ago(group.last_at)]
        for group in groups
    ]
    return table(["GROUP", "JOB TYPE", "ERROR", "JOBS", "LAST"], rows, right=3)


def letter_table(letters: Sequence[DeadLetter]) -> list[str]:
    """Return a heading and one line for each dead job; no lines if there are no dead jobs."""
    rows = [
        [
            short(letter.job.id, stream=sys.stdout),
            letter.job.job_type,
            _cause(letter),
            f"{letter.job.attempt}/{letter.job.max_attempts}",
            _ago(letter.job.ended_at),
        ]
        for letter in letters
    ]
    return table(["JOB", "JOB TYPE", "ERROR", "ATTEMPT", "DIED"], rows, right=3)


def group_lines(group: DeadGroup) -> list[str]:
    """Return all facts of a group and the next command to run, one per line."""
    facts = {
        "group": group.fingerprint,
        "job type": group.job_type,
        "error": _cause(group, None),
        "reason": group.reason,
        "rule": group.rule,
        "status": group.status,
        "hint": group.hint,
        "link": group.link,
        "jobs": f"{_count(group)}, of {group.orgs} orgs" if group.orgs else _count(group),
        "first": _at(group.first_at),
        "last": _at(group.last_at),
        "newest": group.latest,
        "next": f'onward dead replay {group.fingerprint} --rate 10/s --reason "…"',
    }
    return _facts(facts)


def letter_lines(letter: DeadLetter, policies: Policies) -> list[str]:
    """Return all facts of a dead job, one per line, without the secrets of its payload."""
    job, became = letter.job, letter.resolution
    actor = ":".join(part for part in (became.actor_type, became.actor_id) if part) if became else ""
    facts = {
        "job": job.id,
        "job type": job.job_type,
        "error": _cause(letter, None),
        "reason": letter.reason,
        "rule": letter.rule,
        "status": letter.status,
        "hint": letter.hint,
        "link": letter.link,
        "group": letter.fingerprint,
        "attempt": f"{job.attempt}/{job.max_attempts}",
        "died": None if job.ended_at is None else _at(job.ended_at),
        "org": job.org_id,
        "subject": job.subject,
        "payload": json.dumps(policies.settings.redact.redact(job.payload), ensure_ascii=False),
        "became": became and f"{became.resolution} {_at(became.at)} {actor}: {became.reason}",
        "successor": letter.successor_id,
    }
    changes = [f"    {_change(one)}" for one in (became and became.diff) or ()]
    trace = job.error.traceback if job.error else None
    return [*_facts(facts), *changes, *clean_lines(trace or "", "    ").splitlines()]


def say_preview(preview: FixPreview) -> None:
    """Print what a fix would change in one job."""
    say(f"{short(preview.job_id)}:", timed=False)
    if preview.refused is not None:
        say(f"  refused: {clean(preview.refused)}", timed=False)
    for change in preview.diff or ():
        say(f"  {_change(change)}", timed=False)


def _change(change: dict[str, Any]) -> str:
    before, after = (
        clean(json.dumps(change[side], ensure_ascii=False), _LONGEST) if side in change else "(none)"
        for side in ("before", "after")
    )
    return f"{clean(str(change.get('path', '…')))}: {before} → {after}"


def _cause(what: DeadGroup | DeadLetter, longest: int | None = _LONGEST) -> str:
    cause = ": ".join(part for part in (what.error_class, what.message) if part) or what.reason or "unknown"
    return clean(cause, longest if sys.stdout.isatty() else None)


def _count(group: DeadGroup) -> str:
    return f"{group.count}+" if group.capped else str(group.count)


def _ago(at: datetime | None) -> str:
    return "" if at is None else f"{lasting(max(datetime.now(UTC) - at, at - at))} ago"


def _at(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}, {_ago(at)}"


def _digits(fingerprints: Sequence[str]) -> int:
    """Return how many digits distinguish the groups; all digits off a terminal, where a program may read."""
    if not sys.stdout.isatty():
        return max(map(len, fingerprints), default=0)
    digits = _LEAST
    while len({one[:digits] for one in fingerprints}) < len(set(fingerprints)):
        digits += 1
    return digits


def _facts(facts: dict[str, Any]) -> list[str]:
    return [f"{name:<9}  {clean(str(value))}" for name, value in facts.items() if value not in {None, ""}]
