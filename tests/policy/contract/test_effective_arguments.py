"""Keys are made of the arguments with which a job runs, however its caller spelt them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from onward import NewJob, NotificationKey, Onward, job_key
from onward.core.jobs.keys import bucketed_key
from tests.policy.contract.conftest import ORG, PROJECT

NINE = datetime(2030, 1, 1, 9, 0, tzinfo=UTC)
DAY = timedelta(days=1)
ID = UUID("0190a8c0-aaaa-7000-8000-00000000000f")


@dataclass
class Place:
    city: str
    country: str = "pt"


@pytest.mark.parametrize(
    "options",
    [{"unique": "7d"}, {"key": "k_{to}_{template}"}, {"notification_key": NotificationKey("to", "template")}],
    ids=["unique", "template", "notification"],
)
def test_a_default_that_is_spelt_out_makes_no_second_job(make_app, options):  # R28, S4-9, S4-28
    @make_app().job(**options)
    def notify(to: str, template: str = "hello") -> None:
        raise NotImplementedError

    first = notify.enqueue("ada")
    assert not notify.enqueue(template="hello", to="ada").created
    assert first.id == notify.enqueue("ada", "hello").id
    assert notify.enqueue("ada", "bye").created


@pytest.mark.parametrize("way", ["of its type", "of the enqueue"])
def test_the_same_notification_for_another_day_is_another_one(strict, origin, way):  # S4-9
    def notify(to: str) -> None:
        raise NotImplementedError

    options = {"unique": "7d"} if way == "of its type" else {}
    told = strict.job(category="notification", **options)(notify).using(**origin)
    told = told if options else told.using(unique="7d")
    first = told.using(run_at=NINE).enqueue("ada")
    assert not told.using(run_at=NINE + timedelta(minutes=59)).enqueue("ada").created
    assert told.using(run_at=NINE + 3 * DAY).enqueue("ada").created
    with strict.context(**origin):
        new = NewJob(
            job_type="notify", payload={"to": "ada"}, run_at=NINE, unique=None if options else 7 * DAY
        )
        assert strict.client.enqueue(new).id == first.id


def test_a_required_contract_sees_the_same_call_however_it_is_spelt(strict, origin):  # R28, S4-2, S4-28
    @strict.job
    def send(to: str, body: str = "", copies: int = 1) -> None:
        raise NotImplementedError

    first = send.using(**origin).enqueue("ada")
    assert not send.using(**origin).enqueue("ada", copies=1, body="").created
    assert first.refresh().key == job_key("send", ORG, PROJECT, {"to": "ada", "body": "", "copies": 1})
    # A client that names the job type makes the same key.
    with strict.context(**origin):
        assert not strict.client.enqueue(NewJob(job_type="send", payload={"to": "ada", "copies": 1})).created


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"at": NINE}, {"at": "2030-01-01T10:00:00+01:00"}),
        ({"share": 1}, {"share": 1.0}),
        ({"day": date(2030, 1, 1)}, {"day": "2030-01-01"}),
        ({"of": str(ID).upper()}, {"of": ID}),
        ({"place": {"city": "porto"}}, {"place": Place("porto")}),
        ({"names": {"a", "b", "c"}}, {"names": ["c", "b", "a"]}),
        ({}, {"at": None}),
    ],
)
def test_what_the_handler_gets_counts_not_how_it_was_written(make_app, one, other):  # R28, S4-28
    @make_app().job(unique="7d")
    def work(
        *,
        at: datetime | None = None,
        share: float = 0,
        day: date | None = None,
        of: UUID = ID,
        place: Place | None = None,
        names: frozenset[str] = frozenset(),
    ) -> None:
        raise NotImplementedError

    assert work.build(**one).key == work.build(**other).key
    assert work.build(share=2).key != work.build(**one).key


def test_a_default_that_is_no_json_is_no_part_of_a_key(make_app):  # R28
    unset: Any = object()

    @make_app().job(unique="7d")
    def work(n: int, how: Any = unset, **more: int) -> None:
        raise NotImplementedError

    assert work.build(1).key == job_key("work", None, None, {"n": 1})
    assert work.build(1, x=2).key == job_key("work", None, None, {"n": 1, "x": 2})


def remind(app: Onward) -> Any:
    @app.job(category="notification")
    def remind(to: str, template: str = "hello") -> None:
        raise NotImplementedError

    return remind


def test_a_notification_for_another_time_is_another_one_in_the_strict_profile(strict, origin):
    # R28, S4-9
    when = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + 2 * DAY
    send = remind(strict).using(**origin)
    first = send.using(run_at=when).enqueue("ada")
    assert not send.using(run_at=when + timedelta(minutes=59)).enqueue("ada", "hello").created
    others = [
        send.using(run_at=when + 3 * DAY).enqueue("ada"),
        send.using(run_at=when + timedelta(hours=1)).enqueue("ada"),
        send.enqueue("ada"),
    ]
    assert all(other.created for other in others)
    key = job_key("remind", ORG, PROJECT, {"to": "ada", "template": "hello"})
    assert first.refresh().key == bucketed_key(key, when)
    # What is not scheduled has no bucket: its key holds as long as its category says.
    assert others[-1].refresh().key == key


def test_the_key_of_a_far_notification_holds_to_the_end_of_its_bucket(strict, origin):  # R28, S4-9
    send = remind(strict).using(**origin)
    handle = send.using(run_at=datetime.now(UTC) + 30 * DAY).enqueue("ada")
    key = strict.client.for_org(ORG).for_project(PROJECT).keys.get(handle.refresh().key)
    assert 30 * DAY <= key.expires_at - key.first_seen_at <= 31 * DAY


def test_a_delayed_notification_of_a_required_contract_has_its_bucket(make_app, origin):  # R28, S4-9
    app = make_app(contract="required")
    send = remind(app).using(**origin)
    assert send.using(delay="3d").enqueue("ada").created
    assert send.using(delay="6d").enqueue("ada").created
    assert send.enqueue("ada").created
