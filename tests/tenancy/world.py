"""Two orgs with jobs in every state on one database, and a name for what belongs to nobody."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec
import psycopg

from onward import Client, Edit, Failed, JobFilter, NewJob, Outcome, Succeeded
from onward.core.failures.fingerprint import fingerprint
from onward.core.jobs.ids import IdMaker, JobId
from onward.core.policy.policies import Policies
from onward.core.records.usage import Usage
from onward.core.work.error_record import ErrorRecord
from onward.results import Effect, Job, Parked
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import SqliteStore

__all__ = ["NOBODY", "A", "B", "Owner", "World", "connected", "inhabited", "tables"]

WORKER = "a worker of all"
NOW = datetime(2026, 11, 16, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
AGES = timedelta(days=1000)

# Known to every client here: what is signed by one is good for all, unless its org is another.
POLICIES = Policies.of(artifact_secret="s" * 32)

_make_id = IdMaker(time.time_ns, os.urandom).make

_READ = {"sqlite": "SELECT * FROM {0}", "postgres": "SELECT one::text FROM ONLY {0} AS one"}

STATES = (
    "queued",
    "scheduled",
    "running",
    "retrying",
    "succeeded",
    "dead",
    "parked",
    "held",
    "spare",
    "doomed",
    "buried",
    "replayable",
    "discardable",
    "fixable",
    "mended",
    "ending",
    "returning",
    "to replay",
    "to discard",
    "to fix",
)
"""What an org has a job for; the last ones are for those who change them."""
MANY = ("to replay", "to discard", "to fix")
"""Those that are chosen by a subject of their own."""


@dataclass
class Owner:
    """An org by its name, its jobs by what they are, an artifact and a link to it.

    With a `firm` it is a project of that org, and `org_id` is the name of the project.
    """

    org_id: str
    jobs: dict[str, JobId] = field(
        default_factory=lambda: {name: _make_id() for name in (*STATES, "successor")}
    )
    artifact: str = field(default_factory=_make_id)
    doomed_artifact: str = field(default_factory=_make_id)
    token: str = "no such token"
    batch: str = field(default_factory=_make_id)
    open_batch: str = field(default_factory=_make_id)
    firm: str | None = None

    @property
    def place(self) -> dict[str, Any]:
        """Give the fields of a job that is its own."""
        return {"org_id": self.org_id} if self.firm is None else {"project_id": self.org_id}

    def client(self, client: Client) -> Client:
        """Give a client that is confined to it."""
        if self.firm is None:
            return client.for_org(self.org_id)
        return client.for_org(self.firm).for_project(self.org_id)

    def __getattr__(self, name: str) -> JobId:
        """Give a job by what it is."""
        jobs: dict[str, JobId] = self.__dict__.get("jobs", {})
        if name not in jobs:
            raise AttributeError(name)
        return jobs[name]

    def key(self, name: str) -> str:
        """Give the key under which a job was enqueued."""
        # Not by the name of the org: who asks with another's key makes a row that has it, and is its own.
        return f"key {name} {self.org_id[::-1]}"

    def new(self, name: str, **fields: Any) -> NewJob:
        """Give a job whose every field that shows names its org."""
        about = {
            "job_type": f"type of {self.org_id}", "queue": f"queue of {self.org_id}", "key": self.key(name),
            "org_id": self.firm, **self.place, "subject": f"subject of {self.org_id}", "actor_type": "user",
            "actor_id": self.org_id, "payload": {"of": self.org_id, "name": name},
        }  # fmt: skip
        return NewJob(**(about | fields))


# No name is a part of another, so that one in an answer tells whose it is.
A, B, NOBODY = (Owner(name) for name in ("acme", "bolt", "nemo"))


@dataclass
class World:
    """A client of all orgs, one of B alone, and what the rows of A were at the beginning."""

    all: Client
    b: Client
    a: Owner
    own: Owner
    before: dict[str, list[str]] = field(default_factory=dict)

    def rows_of_a(self) -> dict[str, list[str]]:
        """Read every row of every table that names A or one of its jobs."""
        marks = (self.a.org_id, self.a.artifact, self.a.batch, self.a.open_batch, *self.a.jobs.values())
        found: dict[str, list[str]] = {}
        with closing(connected(self.all)) as connection:
            for name in tables(self.all):
                for row in connection.execute(_READ[self.all.store.database].format(name)):
                    text = repr(row)
                    if any(mark in text for mark in marks):
                        found.setdefault(name, []).append(text)
        return {name: sorted(texts) for name, texts in found.items()}

    def told(self, answer: object, owner: Owner) -> str:
        """Give an answer as text in which neither ids nor the name of who was asked about differ."""
        text = re.sub(
            r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
            "<id>",
            f"{type(answer).__name__} {answer!r} {answer}",
        )
        return text.replace(owner.org_id, "<org>").replace(owner.org_id[::-1], "<key>")


def inhabited(client: Client, confined: Client | None = None, *, firm: str | None = None) -> World:
    """Fill the tables of a client with what two orgs, or two projects of a firm, and the whole, have."""
    a, b = Owner(A.org_id, {}, firm=firm), Owner(B.org_id, {}, firm=firm)
    client.worker.register(WORKER, lease=AGES)
    client.enqueue(NewJob(job_type="global", payload={"of": "all"}))
    for owner in (a, b):
        _settle(client, owner)
        for name in ("worker", "leaver"):
            owner.client(client).worker.register(f"{name} of {owner.org_id}", lease=AGES)
    client.gate.close(reason="for all to see")
    world = World(client, b.client(confined or client), a, b)
    world.before = world.rows_of_a()
    return world


def _settle(client: Client, owner: Owner) -> None:
    for name in STATES:
        later: dict[str, Any] = {"run_at": LATER} if name == "scheduled" else {}
        later |= {"subject": f"{name} of {owner.org_id}"} if name in {*MANY, "parked"} else {}
        owner.jobs[name] = client.at(NOW).enqueue(owner.new(name, **later)).id
    claimed = {
        job.id: job for job in client.at(NOW).worker.claim(f"queue of {owner.org_id}", 50, worker_id=WORKER)
    }
    job = {name: claimed[job_id] for name, job_id in owner.jobs.items() if job_id in claimed}
    failed = Failed({"error_class": "Error", "message": owner.org_id})
    outcomes: dict[str, Outcome] = {
        "retrying": failed,
        "succeeded": Succeeded({"of": owner.org_id}),
        "parked": Parked(None, "signal", f"key of {owner.org_id}"),
        "dead": (dead := Failed({"message": owner.org_id}, retryable=False)),
        **dict.fromkeys(("buried", "replayable", "discardable", "fixable", "mended", *MANY), dead),
    }
    usage = (Usage.checked(f"unit of {owner.org_id}", 2, 30),)
    ends = [POLICIES.end_of(job[name], outcome, 0.5, usage) for name, outcome in outcomes.items()]
    client.at(NOW).worker.write(ends).require()
    client.usage.set_budget(
        owner.firm or owner.org_id, limit_micros=1000, period="total", reason=owner.org_id
    )
    artifacts = client.artifacts
    owner.artifact = artifacts.put("file", text=f"text of {owner.org_id}", job_id=owner.succeeded).id
    own = owner.client(client).artifacts
    owner.doomed_artifact = own.put("file", text=f"more of {owner.org_id}").id
    owner.token = artifacts.sign(owner.artifact)
    fixed = client.at(NOW).dead.fix(
        owner.mended, Edit(patch={"of": f"{owner.org_id}, mended"}), reason=owner.org_id
    )
    owner.jobs["successor"] = str(fixed.successor_id)
    for name in ("mail", "resettable"):
        begun = client.at(NOW).worker.effects.begin(job["running"], name)
        client.at(NOW).worker.effects.done(job["running"], begun, {"of": owner.org_id})
    owner.client(client).signals.send("signal", f"kept of {owner.org_id}", {"of": owner.org_id})
    client.at(NOW).worker.release([job[name].held_lease for name in ("queued", "held", "spare", "doomed")])
    client.at(NOW).jobs.cancel(owner.held, reason=owner.org_id)
    if owner.firm is None:
        client.at(NOW).orgs.pause(owner.org_id, reason=f"by {owner.org_id}")
    _batch(client, owner)


def _batch(client: Client, owner: Owner) -> None:
    # Each for one who cancels by its subject; not by the name of the org, which the audit would tell.
    subjects = (f"{name} {owner.org_id[::-1]}" for name in ("end", "stop"))
    client.enqueue_many([owner.new("unwanted", key=None, subject=subject) for subject in subjects])
    about: dict[str, Any] = {"on_complete": owner.new("after", key=None), "name": f"batch of {owner.org_id}"}
    owner.batch = client.batches.enqueue([owner.new("member", key=None)], **about).id
    owner.open_batch = client.batches.open(**about)


@cache
def tables(client: Client) -> list[str]:
    """Name every table of a client's store, partitions among them."""
    if client.store.database == "sqlite":
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'onward_*' ORDER BY name"
    else:
        query = (
            "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relkind IN ('r', 'p') "
            f"AND c.relnamespace = '{client.store.prefix.rstrip('.')}'::regnamespace ORDER BY 1"
        )
    with closing(connected(client)) as connection:
        return [name for (name,) in connection.execute(query)]


def connected(client: Client) -> Any:
    """Give a new connection of the driver's own to a client's database."""
    store = client.store
    if isinstance(store, SqliteStore):
        return sqlite3.connect(store.file.path)
    assert isinstance(store, PostgresStore)
    return psycopg.connect(store.url)


def group_of(owner: Owner) -> str:
    """Name the group of an org's dead letters."""
    return fingerprint(f"type of {owner.org_id}", ErrorRecord(message=owner.org_id))


def running_job(client: Client, owner: Owner) -> Job:
    """Give a running job as its worker would have it: the own, or one that was made to look like one."""
    own = _running(client)
    return msgspec.structs.replace(own, id=owner.running, **owner.place)


def begun(client: Client) -> Effect:
    """Give an effect that the own running job has begun."""
    return client.worker.effects.begin(_running(client), "begun")


def _running(client: Client) -> Job:
    running = client.jobs.list(JobFilter(state="running"))
    return next(job for job in running if job.payload["name"] == "running")
