"""The job types that are known here, and the switch by which an operator skips the jobs of one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from onward.core.jobs.job_types import DeclaredJobType, KnownJobType, read_described
from onward.core.jobs.payload import decode
from onward.core.page import MOST_PER_PAGE, Page
from onward.core.policy.built_in import BUILT_IN
from onward.core.policy.policies import Policies
from onward.operations.limits import pauses
from onward.operations.schedules import schedules
from onward.operations.statement import Operation, Scalar, Statement


def list_job_types(policies: Policies) -> Operation[Page[KnownJobType]]:
    """Return the job types that the application declares, or that live workers know, by name."""
    reported, counts = yield from _of_workers()
    own = {name: known.declared for name, known in policies.registry.job_types.items()}
    declared = {**reported, **own}
    triggers = yield from _schedules()
    controls = yield from pauses.controls()
    paused = {one.name: one for one in controls.pauses if one.scope == "job_type"}
    skipped = {one.job_type: one for one in controls.skips}
    found: list[KnownJobType] = []
    for name in sorted({*declared, *counts} - BUILT_IN):
        one = declared.get(name)
        known = one or DeclaredJobType(name=name)
        found.append(
            KnownJobType(
                name=name,
                purpose=known.purpose,
                queue=known.queue,
                category=None if one is None else known.category,
                created_by=known.created_by,
                triggered_by=tuple(dict.fromkeys([*known.triggered_by, *triggers.get(name, ())])),
                enabled=known.enabled,
                skip=skipped.get(name),
                pause=paused.get(name),
                workers=counts[name],
            )
        )
    return Page(found)


def _of_workers() -> Operation[tuple[dict[str, DeclaredJobType], Counter[str]]]:
    """Return what live workers report of their job types, and how many know each."""
    found: dict[str, DeclaredJobType] = {}
    counts: Counter[str] = Counter()
    params: dict[str, Scalar] = {"is_live": 2, "seen_at": 0, "id": "", "limit": MOST_PER_PAGE}
    for _, text, _, _, _, lost_at in (yield Statement("list_workers", params)):
        info = decode(text)
        if lost_at is not None or not isinstance(info, Mapping):
            continue
        names = info.get("job_types")
        counts.update(map(str, names) if isinstance(names, Iterable) else ())
        # The first is the one that was seen last.
        found = {**read_described(info.get("described")), **found}
    return found, counts


def _schedules() -> Operation[dict[str, list[str]]]:
    """Return the stored schedules of each job type, as texts."""
    found: dict[str, list[str]] = defaultdict(list)
    for one in (yield from schedules.list_schedules()).items:
        found[one.job_type].append(f"schedule {one.name}: {one.timing.in_words()}")
    return found
