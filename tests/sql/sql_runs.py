"""Every operation, driven with canned rows: what it asks the database for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace

from onward.connections.drivers.sqlite import WRITE_LOCK
from onward.connections.schema_check import require_tables
from onward.core.failures.alert import Send, sample
from onward.core.failures.breaker import Answer
from onward.core.failures.dead_letter import DeadFilter, Edit
from onward.core.jobs.ids import first_id_at
from onward.core.jobs.job import COLUMNS, Job, NewJob, micros
from onward.core.policy.application import DeclaredTypes
from onward.core.policy.category import Category, Slo, category
from onward.core.policy.policies import DEFAULT_POLICIES, Policies
from onward.core.records.artifact import NewArtifact, Owner, StoredContent
from onward.core.records.audit import AuditFilter
from onward.core.records.usage import Usage
from onward.core.upkeep.diagnosis import Finding
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lease import JobLease
from onward.core.work.lifecycle import End, Released, Succeeded
from onward.core.work.progress import Report
from onward.core.work.wait import NewSignal, Parked
from onward.operations.failures import alerts, breakers, dead_bulk, dead_groups, dead_letters
from onward.operations.flows import batches, signals
from onward.operations.jobs import cancel, enqueue, inspect, key_conflicts, new_rows, run_now, subjects
from onward.operations.limits import pauses
from onward.operations.records import artifacts, audit, prune_audit, seal, usage, verify
from onward.operations.statement import Operation, Row, Several, Statement
from onward.operations.tenancy import find_in_scope, set_org
from onward.operations.upkeep import doctor
from onward.operations.work import (
    claim,
    effects,
    finish,
    leader,
    leases,
    park,
    polls,
    progress,
    rescue,
    workers,
)
from onward.sql.catalogue import (
    Database,
)
from tests.sql.batch_runs import BATCH_RUNS
from tests.sql.flow_runs import FLOW_RUNS, FLOW_SETS
from tests.sql.limit_runs import LIMIT_RUNS, LIMIT_SETS
from tests.sql.maintenance_runs import MAINTENANCE_RUNS
from tests.sql.queue_runs import QUEUE_RUNS, QUEUE_SETS
from tests.sql.reading_runs import READING_RUNS
from tests.sql.schedule_runs import SCHEDULE_RUNS, SCHEDULE_SETS

__all__ = ["RUNS", "SETS", "statements_of"]

SETS = {
    "jobs": new_rows.COLUMNS,
    "ended": finish.ENDED,
    "failed": finish.FAILED,
    "returned": finish.RETURNED,
    "metered": usage.METERED,
    "changes": key_conflicts.CHANGES,
    "runs": finish.RERUN,
    "parked": park.PARKED,
    "reports": progress.REPORTED,
    "lapsed": ("org_id", "project_id", "key"),
    "spent": usage.SPENT,
    "links": seal.LINK,
    "gone": ("seq",),
    "deaths": alerts.DEATHS,
    "groups": alerts.GROUPS,
    "findings": alerts.FINDINGS,
    "messages": alerts.MESSAGES,
    "tallies": batches.TALLIES,
    **SCHEDULE_SETS,
    **LIMIT_SETS,
    **QUEUE_SETS,
    **FLOW_SETS,
}

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ID = first_id_at(NOW)
OTHER = first_id_at(NOW + timedelta(seconds=1))
SPAN = timedelta(seconds=30)


def stored(**changes: Any) -> Row:
    """A claimed job, as a statement would return it."""
    values: dict[str, Any] = {
        name: {"int": 1, "time": micros(NOW), "json": "{}", "id": ID, "text": "x", "bool": 0}[kind]
        for name, kind in COLUMNS.items()
    }
    return tuple(
        (
            values | {"state": "running", "tags": None, "progress": None, "category": "default"} | changes
        ).values()
    )


JOB = Job.from_row(stored())
POLICY = category("default").retry
REPORT = Report(1, 2, "n")
REPORTED = [replace(End.of(JOB, Succeeded(1), POLICY), progress=REPORT)]
ENDS = [End.of(JOB, Succeeded(1), POLICY), End.of(JOB, Released(), POLICY)]
METERED = [End.of(JOB, Released(), POLICY, usage=(Usage("u", 1.5, 5), Usage("v")))]
BUDGET = ("o", 1, "day", micros(NOW), 0, None, micros(NOW), None, None, None)
FILE = NewArtifact.of("n", text=True, content_type=None, roles=["r"], expires=SPAN)
ARTIFACT = (
    ID, "o", None, None, None, None, "n", "text/csv", 1, "0" * 64, "database", '["r"]', None, None, 1, None,
)  # fmt: skip
FULL = NewJob(
    job_type="t", payload={"a": 1}, key="k", org_id="o", project_id="p", subject="s", tags=["x"], delay=SPAN,
    deadline=NOW, timeout=SPAN, parent_id=ID, batch_id=ID, ties=2, actor_type="user", actor_id="1",
    request_id="r", correlation_id="c", traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
)  # fmt: skip


COALESCED = replace(FULL, on_conflict="coalesce", merge=lambda old, new: {**old, **new})
HELD = ("queued", '{"a":1}', None, 1, None, 1, 0, 1)
SIGNAL = (ID, "o", "e", "k", "{}", 1, 1, None, None)
SEALING = (0, 0, "0" * 64, None, None, None, 1, 1, 1)
RECORD = (1, micros(NOW), "job.enqueued", *[None] * 13)
LETTER = (1, "fixed", micros(NOW), None, None, "r", ID, "[]")
DEAD = (*stored(state="dead", traceparent=None), *[None] * len(LETTER))
EFFECT = (ID, "e", "once", "begun", "0" * 16, 0, None, 1, 1, micros(NOW), None)
HOUR = timedelta(hours=1)
TIMELY = Category(name="timely", slo=Slo(SPAN))
WORKER_ROW = ("w", None, None, "{}", 1, 1, 1, None)
BREAKER = ("b", "closed", 1, "j", micros(NOW), None, None, 0, None, None, 0, None, None, None)
NO_BREAKER = (micros(NOW), None, *[None] * len(BREAKER))
LINE = (None, None, "k", ID, "pending", 1, 1, None, None, None)

DEATH_ROW = (ID, 1, micros(NOW), None, "t", "q", "default", 1, 1, None)
FINDING = Finding(code="stuck_jobs", severity="problem", title="t")
SEND = Send("f", "log", 1, sample("f.1", NOW), 1)


class AnyConnection:
    """Enough of a connection to ask for its tables."""

    database: Database = "sqlite"
    prefix = "onward_"
    identity = None

    def require_transaction(self) -> None:
        """There is none."""

    def fetch(self, statement: Statement) -> Sequence[Row]:
        raise NotImplementedError


# Every operation, with the rows that it is sent for each of its statements in turn.


def alone(statement: Statement) -> Operation[None]:
    """Run a statement that belongs to no operation."""
    yield statement


RUNS: dict[str, tuple[Callable[[], Operation[Any]], list[list[Any]]]] = {
    "enqueue": (partial(enqueue.enqueue, NewJob(job_type="t"), ID), [[]]),
    "enqueue with a key": (partial(enqueue.enqueue, FULL, ID), [[(ID, ID, "queued", 0)]]),
    "register": (partial(leases.register, "w", lease=SPAN), [[("w",)]]),
    "extend": (partial(leases.extend, "w", [JobLease(ID, 1, 1)], lease=SPAN), [[(ID, 1, 0)]]),
    "retire": (partial(leases.retire, "w"), [[("w", None, None)], [("sweeper",)]]),
    "claim": (partial(claim.claim, "q", 1, worker_id="w"), [[stored()]]),
    "claim beside pauses": (
        partial(claim.claim, "q", 1, worker_id="w", paused_orgs=["o"], paused_types=["t"]),
        [[stored()]],
    ),
    "finish": (partial(finish.finish, ENDS), [[(ID, "cancelled")], []]),
    "finish what was reported": (
        partial(finish.finish_reported, [JOB.end_with(Succeeded(1))], DEFAULT_POLICIES, lambda: 0.5),
        [[stored()], []],
    ),
    "finish what was reset": (partial(finish.finish, ENDS[:1]), [[(ID, "again")], [(ID,)]]),
    "coalesce": (
        partial(enqueue.enqueue, COALESCED, ID),
        [[(ID, ID, "queued", 0)], [(ID,)], [HELD], [(ID, "queued", "coalesced")]],
    ),
    "debounce": (
        partial(enqueue.enqueue, replace(COALESCED, debounce=SPAN, debounce_max=SPAN), ID),
        [[(ID, ID, "queued", 0)], [(ID,)], [HELD], [(ID, "scheduled", "debounced")]],
    ),
    "park": (partial(finish.finish, [End.of(JOB, Parked(NOW, "e", "k"), POLICY)]), [[], [(ID,)]]),
    "send a signal": (
        partial(signals.send, NewSignal(ID, "e"), Policies()),
        [[(ID,)], [(1,)], [("q", 1, None)]],
    ),
    "find a signal": (partial(signals.find, JOB, "e", "k", [ID]), [[SIGNAL]]),
    "look for signals": (signals.any_fresh, [[(1,)]]),
    "wake": (signals.wake, [[(1,)]]),
    "list signals": (signals.list_signals, [[SIGNAL]]),
    "list awaited": (signals.list_awaited, [[(ID, "o", "e", None, 1)]]),
    "prune signals": (partial(signals.prune, 1), [[(ID,)], [(ID,)]]),
    "get a key": (partial(key_conflicts.get_key, "k"), [[LINE]]),
    "list keys": (key_conflicts.list_keys, [[LINE]]),
    "forget a key": (partial(key_conflicts.forget, "k", reason="r"), [[(ID,)]]),
    "prune keys": (key_conflicts.prune, [[("", "", "k")], [("", "", "k")], [("k",)]]),
    "drop a subject": (
        partial(subjects.drop_subject, "s", Policies(), policy="delete"),
        [[(ID, "default", "queued", None)], [(ID,)], [], []],
    ),
    "drop a subject whose job runs": (
        partial(subjects.drop_subject, "s", Policies(), policy="delete"),
        [[(ID, "default", "running", None)], [], [(ID,)], [(ID,)], [(ID, "running", None, None)]],
    ),
    "store progress": (partial(progress.store, [(ID, 1, REPORT)]), [[(ID, 1)]]),
    "finish with the last report": (partial(finish.finish, REPORTED), [[(ID,)], []]),
    "finish what was metered": (partial(finish.finish, METERED), [[("o", 5)], [], [("o",)]]),
    "usage of a job": (partial(usage.events_of, ID), [[]]),
    "report usage": (partial(usage.report, ("org", "day")), [[]]),
    "prune usage": (partial(usage.prune, before=NOW), [[(1,)]]),
    "set a budget": (partial(usage.set_budget, "o", limit_micros=1, period="day", reason="r"), [[BUDGET]]),
    "remove a budget": (partial(usage.remove_budget, "o"), [[("o",)]]),
    "budgets": (usage.budgets, [[BUDGET]]),
    "read the audit": (partial(audit.read, AuditFilter(), hide=str), [[(2,)], [RECORD]]),
    "note": (partial(audit.note, JOB.held_lease, "A", {"n": 1}), [[(1,)]]),
    "seal": (seal.seal, [[(1,)], [SEALING], [RECORD], [(1,)], [(1,)]]),
    "read links": (partial(verify.read_links, 0, 1), [[(1, 1, 1)], [(1, 1, "d", "l", None, *RECORD)]]),
    "prune the audit": (
        partial(prune_audit.prune, {NOW: ["default"]}, ["default"], limit=1),
        [[SEALING], [(None, *RECORD)], [(1,)], [(2,)], [(1,)], [(1,)]],
    ),
    "rescue": (rescue.rescue, [[stored()], []]),
    "worker": (partial(workers.get_worker, "w"), [[WORKER_ROW]]),
    "declared types": (partial(workers.check_declared, "w", DeclaredTypes("shop", {})), [[WORKER_ROW]]),
    "type unknown": (partial(workers.type_unknown_for, "t"), [[(None,)]]),
    "jobs of a worker": (partial(workers.list_running, "w", 1), [[stored()]]),
    "rescue a worker": (partial(rescue.rescue_worker, "w"), [[("w", None, None)], [], [stored()], []]),
    "lead": (partial(leader.lead, "sweeper", "w", ttl=SPAN), [[("w",)]]),
    "ready queues": (polls.ready_queues, [[("q", None, None), (None, None, 1)]]),
    "instructions": (
        partial(polls.instructions, "w"),
        [[("worker", "w", None, None, None, None), ("breaker", "b", None, None, None, 1)]],
    ),
    "get a breaker": (partial(breakers.get_breaker, "b"), [[NO_BREAKER]]),
    "list breakers": (breakers.list_breakers, [[(micros(NOW), 1, *BREAKER)]]),
    "ask a breaker": (partial(breakers.ask, "b", "w/1"), [[(micros(NOW), 1, *BREAKER)], [BREAKER]]),
    "count an answer": (
        partial(breakers.answered, "b", None, Answer(pushed_back=True)),
        [[NO_BREAKER], [], [(micros(NOW), 1, *BREAKER)], [BREAKER]],
    ),
    "open a breaker": (partial(breakers.open_breaker, "b", reason="r"), [[NO_BREAKER], [BREAKER]]),
    "close a breaker": (
        partial(breakers.close_breaker, "b", reason="r"),
        [[(micros(NOW), 1, *BREAKER)], [BREAKER]],
    ),
    "pause": (partial(pauses.pause, "org", "o", reason="r"), [[("org",)]]),
    "resume": (partial(pauses.resume, "job_type", "t"), [[]]),
    "controls of a claim": (pauses.claim_controls, [[("policy", "q", None, None, None, None)]]),
    "controls": (pauses.controls, [[("gate", "", "r", None, None, 1)]]),
    "promote": (rescue.promote, [[("q", 1, None), (None, None, "k"), (None, None, None)]]),
    "run now": (partial(run_now.run_now, ID, reason="r"), [[(ID,)], [stored()], [("job.run_now",)]]),
    "skip": (partial(pauses.skip, "t", reason="r"), [[("skip",)]]),
    "cancel": (partial(cancel.cancel, [ID], reason="r"), [[], [stored()]]),
    "get": (partial(inspect.get_many, [ID]), [[stored()]]),
    "count": (inspect.count, [[]]),
    **READING_RUNS,
    "attempts": (partial(inspect.attempts_of, ID), [[stored()], [], [(None, None)]]),
    "events": (partial(inspect.events_of, ID), [[]]),
    "list dead letters": (partial(dead_letters.list_letters, DeadFilter()), [[DEAD]]),
    "list dead letters of a group": (partial(dead_letters.list_letters, DeadFilter(group="a")), [[DEAD]]),
    "list dead letters of a subject": (partial(dead_letters.list_letters, DeadFilter(subject="s")), [[DEAD]]),
    "pick dead letters": (partial(dead_bulk.pick_letters, DeadFilter(), None, 1), [[(ID,)]]),
    "pick of a group": (partial(dead_bulk.pick_letters, DeadFilter(group="a"), None, 1), [[(ID,)]]),
    "pick of a subject": (partial(dead_bulk.pick_letters, DeadFilter(subject="s"), None, 1), [[(ID,)]]),
    "groups of dead letters": (
        partial(dead_groups.list_groups, DeadFilter()),
        [[("a", ID, "t", "{}", "[1, 1, 1, 0]")]],
    ),
    "preview a fix": (
        partial(dead_bulk.preview_one, ID, Edit(payload={"a": 2}), ID, policies=Policies()),
        [[DEAD]],
    ),
    "origin": (partial(dead_letters.origin, ID), [[(*DEAD[: len(COLUMNS)], *LETTER)]]),
    "history of deaths": (partial(dead_letters.history, ID), [[LETTER]]),
    "replay": (
        partial(dead_letters.replay, [ID], reason="r", policies=Policies()),
        [[], [(ID, "dead", None, ID)]],
    ),
    "discard": (
        partial(dead_letters.discard, [ID], reason="r", policies=Policies()),
        [[(ID,)], []],
    ),
    "fix": (
        partial(dead_letters.fix, ID, Edit(payload={"a": 2}), ID, reason="n", policies=Policies()),
        [[DEAD], [LETTER], []],
    ),
    "begin an effect": (partial(effects.begin, JOB, "e"), [[EFFECT]]),
    "do an effect": (
        partial(effects.keep, JOB, "e", {"a": 1}, kind="once", after=effects._effect(EFFECT)),
        [[(1,)]],
    ),
    "remember a step": (partial(effects.keep, JOB, "e", None, kind="step", after=None), [[]]),
    "read an effect": (partial(effects.read, ID, "e"), [[]]),
    "list effects": (partial(effects.list_effects, ID), [[EFFECT]]),
    "reset an effect": (partial(effects.reset, ID, "e", Policies(), reason="r"), [[EFFECT]]),
    "whose an artifact is": (partial(artifacts.owner_of, Owner(job_id=ID), Policies()), [[stored()]]),
    "put an artifact": (partial(artifacts.add, ID, FILE, StoredContent("0" * 64, 1), Owner()), [[ARTIFACT]]),
    "leave an artifact": (partial(artifacts.add_of_job, ID, FILE, StoredContent("0" * 64, 1), JOB), [[]]),
    "get an artifact": (partial(artifacts.get, ID, job=JOB), [[(*ARTIFACT, "")]]),
    "list artifacts": (artifacts.list_artifacts, [[ARTIFACT]]),
    "delete an artifact": (partial(artifacts.delete, ID, reason="r"), [[ARTIFACT]]),
    "expire artifacts": (partial(artifacts.expire, 1), [[ARTIFACT]]),
    "used content": (partial(artifacts.used, ["0" * 64]), [[("o", "0" * 64, 0)]]),
    "installation": (artifacts.installation, [[("i",)]]),
    "find deaths": (partial(alerts.find_deaths, overlap=SPAN), [[DEATH_ROW]]),
    "note a look": (alerts.note_look, [[(1,)]]),
    "raise alerts": (
        partial(alerts.raise_deaths, [alerts.Death(*DEATH_ROW[:9], ErrorRecord())], Policies()),
        [[(ID, 1)], [("f",)]],
    ),
    "observe": (partial(alerts.observe, [FINDING], Policies()), [[("stuck_jobs",)], []]),
    "due alerts": (partial(alerts.due, ["log"], throttle=SPAN), [[("alert",)]]),
    "prepare alerts": (
        partial(alerts.prepare, ["log"], throttle=SPAN),
        [[("f", '{"kind":"k","severity":"problem","title":"t"}', 1, 1, 1, 1, 1)], [], [("f",)]],
    ),
    "take a message": (partial(alerts.take, "log", hold=SPAN), [[]]),
    "record a send": (partial(alerts.record_send, SEND), [[("f",)]]),
    "put off a message": (partial(alerts.record_send, SEND, "e", wait=SPAN), [[("f",)]]),
    "list alerts": (alerts.list_alerts, [[], []]),
    "mute": (partial(alerts.mute, "f", reason="r", for_=SPAN), [[("f",)]]),
    "unmute": (partial(alerts.unmute, "f", reason="r"), [[("f",)]]),
    "prune alerts": (partial(alerts.prune, overlap=SPAN), [[(1,)], [("f",)], [("f",)]]),
    **SCHEDULE_RUNS,
    "diagnose": (
        partial(doctor.gather, Policies.of(categories=[TIMELY]), NOW),
        [
            [("q", None, None), (None, micros(NOW - 2 * HOUR), micros(NOW))],
            [],
            [WORKER_ROW],
            [("q", 1, 1)],
            [("t", "timely", 1, 1)],
            [(1,)],
            [],
            [("w", "q", 1)],
            [("w", 1, 1, 1, 0)],
            [("n", "t", "code", 1, 0, 1, 1, 1, "dead", "no", ID)],
            [("t", "E", 1)],
            [("t", None, 1, 1, 0, 1)],
            [(ID, "t", 1)],
            [("dead", 1)],
            [(1, 1)],
            [(1,)],
            [],
            [],
            [("log", 1, 1, "no")],
        ],
    ),
    "inspect the database": (
        partial(doctor.inspect_database, NOW, kind="postgres", table="live"),
        [[("16.4", 1, 1, 1, 1, 1, "[]")]],
    ),
    "check integrity": (doctor.check_integrity, [[("fault",)]]),
    "explain a job": (
        partial(doctor.gather_job, ID, Policies(), NOW, confined=False),
        [[stored(state="queued")], [], [], [(None, None, 1)], [WORKER_ROW], [], [(1,)], []],
    ),
    **BATCH_RUNS,
    **FLOW_RUNS,
    **MAINTENANCE_RUNS,
    **LIMIT_RUNS,
    **QUEUE_RUNS,
    "write lock": (partial(alone, WRITE_LOCK), [[]]),
    "tables": (partial(require_tables, AnyConnection()), [[(1,)]]),
    "org": (partial(set_org, "o"), [[("o",)]]),
    "jobs in scope": (partial(find_in_scope, [ID]), [[(ID,)]]),
}


def statements_of(name: str) -> list[Statement]:
    """Drive an operation with canned rows and give what it asked for."""
    make, answers = RUNS[name]
    operation = make()
    asked_for: list[Statement] = []
    statement: Statement | Several | None = next(operation)
    for rows in answers:
        assert isinstance(statement, Statement), "the operation asked for less than is answered"
        asked_for.append(statement)
        try:
            statement = operation.send(rows)
        except StopIteration:
            statement = None
    assert statement is None, "the operation asks for more than is answered"
    return asked_for
