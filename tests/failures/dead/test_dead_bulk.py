"""Many dead letters at once: replayed at a rate, discarded, or fixed by one patch; and counted before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from onward import Client, DeadFilter, Edit, InvalidJob, InvalidSetting, JobNotFound, JobState
from onward.core.inputs.rate import interval
from onward.core.page import read_cursor
from onward.errors import AlreadyResolved, PayloadRejected
from onward.operations import walk
from onward.operations.failures import dead_bulk
from onward.results import Bulk
from tests.failures.dead.dying import SECOND, die_of, kill
from tests.jobs.inspect.reading import rows
from tests.work.leases.dying_processes import ADA, LATER, claim, events, waiting

WHY: dict[str, Any] = {"reason": "it is back"}


def ada(client: Client) -> Client:
    """Give the client of an operator who looks after the dead later."""
    return client.at(LATER).acting_as(ADA)


@pytest.fixture
def small_pages(monkeypatch) -> None:
    monkeypatch.setattr(dead_bulk, "AT_ONCE", 2)
    monkeypatch.setattr(walk, "_COUNTED_AT_ONCE", 2)


def test_an_operator_resets_the_dead_of_a_subject_and_type(client):
    # S0-60, S0-61: back to pending, attempts 0, nothing left of the last run.
    chosen = [die_of(client, "no", subject="booking:42", job_type="invoice") for _ in range(2)]
    die_of(client, "no", subject="booking:42", job_type="mail")
    die_of(client, "no", subject="booking:43", job_type="invoice")
    answer = ada(client).dead.replay_where(DeadFilter(subject="booking:42", job_type="invoice"), **WHY)
    assert (answer.found, answer.done, answer.refused, answer.next_cursor) == (2, 2, {}, None)
    for job_id in chosen:
        job = client.jobs.get(job_id)
        assert (job.state, job.attempt, job.error, job.result, job.ended_at) == (
            JobState.QUEUED,
            0,
            None,
            None,
            None,
        )
        [event] = [event for event in client.jobs.events(job_id) if event.event == "job.replayed"]
        assert (event.actor_id, event.detail) == ("ada", {"reason": "it is back"})
    assert len(waiting(client)) == 2


def in_one_call(client: Client, **how: Any) -> Bulk:
    return client.dead.replay_where(DeadFilter(), **how)


def in_calls_of_three(client: Client, **how: Any) -> Bulk:
    first = client.dead.replay_where(DeadFilter(), limit=3, **how)
    assert (first.found, first.done) == (3, 3)
    return first.joined(client.dead.replay_where(DeadFilter(), limit=3, cursor=first.next_cursor, **how))


@pytest.mark.parametrize("replayed", [in_one_call, in_calls_of_three])
def test_at_a_rate_one_becomes_due_after_another_over_all_pages_and_calls(client, small_pages, replayed):
    # S4-46
    ids = kill(client, 5)
    answer = replayed(ada(client), rate="10/s", **WHY)
    jobs = [client.jobs.get(job_id) for job_id in ids]
    assert [job.run_at - LATER for job in jobs] == [n * SECOND / 10 for n in range(5)]
    assert [job.state for job in jobs] == [JobState.QUEUED, *[JobState.SCHEDULED] * 4]
    assert answer == Bulk(found=5, done=5)
    assert claim(client, LATER).id == ids[0]
    assert client.at(LATER).worker.claim("q:default", 9, worker_id="w") == []
    client.at(LATER + SECOND).worker.promote()
    assert {job.id for job in client.at(LATER + SECOND).worker.claim("q:default", 9, worker_id="w")} == set(
        ids[1:]
    )


def test_a_deadline_before_its_turn_does_not_kill_a_job_that_waits_for_it(client):
    soon = LATER + SECOND / 2
    kill(client, 3, deadline=soon)
    ada(client).dead.replay_where(DeadFilter(), rate=1, **WHY)
    [deadlines] = zip(*rows(client, "SELECT deadline FROM {prefix}live ORDER BY id"), strict=True)
    assert [deadline is None for deadline in deadlines] == [False, True, True]


def test_it_is_bounded_and_goes_on_where_it_ended(client, small_pages):
    ids = kill(client, 5)
    first = ada(client).dead.discard_where(DeadFilter(), limit=3, **WHY)
    assert (first.found, first.done) == (3, 3)
    assert waiting(client) == ids[:2:-1]
    rest = ada(client).dead.discard_where(DeadFilter(), cursor=first.next_cursor, **WHY)
    assert (rest.done, rest.next_cursor, waiting(client)) == (2, None, [])
    assert [events(client, job_id)[-1] for job_id in ids] == ["job.discarded"] * 5


def test_a_dry_run_only_counts(client, small_pages):
    ids = kill(client, 5)
    dead = ada(client).dead
    for listing, call in (("dead.replay", dead.replay_where), ("dead.discard", dead.discard_where)):
        assert call(DeadFilter(), dry_run=True, **WHY) == Bulk(found=5)
        counted = call(DeadFilter(), dry_run=True, limit=3, **WHY)
        assert (counted.found, counted.done) == (3, 0)
        assert counted.next_cursor is not None
        assert read_cursor(listing, counted.next_cursor, str, int) == [ids[2], 0]
    assert client.dead.fix_where(DeadFilter(), Edit(patch={"a": 1}), reason="n", dry_run=True).found == 5
    assert len(waiting(client)) == 5
    assert ada(client).dead.replay_where(DeadFilter(job_type="none"), **WHY) == Bulk()


def test_who_can_not_be_replayed_is_told_and_does_not_hold_up_the_others(client, small_pages):
    older = [die_of(client, "no", key="k", unique="active") for _ in range(3)]
    other = die_of(client, "no")
    answer = ada(client).dead.replay_where(DeadFilter(), **WHY)
    assert (answer.found, answer.done) == (4, 2)
    assert set(answer.refused) | {client.keys.get("k").job_id} == set(older)
    assert client.jobs.get(other).state == JobState.QUEUED


def test_a_group_is_replayed_and_no_other(client):
    one, other = die_of(client, "no row 1"), die_of(client, "no table 1")
    kind = client.dead.get(one).fingerprint
    assert ada(client).dead.replay_where(DeadFilter(group=kind), **WHY).done == 1
    assert waiting(client) == [other]


def test_a_whole_group_is_fixed_by_one_patch(client, small_pages):
    # S4-46, R8
    ids = kill(client, 3)
    odd = die_of(client, "no such mailbox", payload={"to": "fixed@example.com"})
    kind = client.dead.get(odd).fingerprint
    patch = {"to": "fixed@example.com"}
    previews = client.dead.preview_where(DeadFilter(group=kind), Edit(patch=patch), limit=2)
    assert [preview.job_id for preview in previews] == [odd, ids[2]]
    assert "changes nothing" in str(previews[0].refused)
    assert previews[1].diff == [{"path": "$.to", "after": "fixed@example.com"}]
    assert len(waiting(client)) == 4, "a preview writes nothing"
    answer = ada(client).dead.fix_where(DeadFilter(group=kind), Edit(patch=patch), reason="a typo")
    assert (answer.found, answer.done, set(answer.refused)) == (4, 3, {odd})
    for job_id in ids:
        letter = client.dead.get(job_id)
        assert letter.resolution is not None
        assert (letter.resolution.reason, letter.resolution.actor_id) == ("a typo", "ada")
        assert client.jobs.get(letter.successor_id).payload["to"] == "fixed@example.com"
        origin = client.dead.origin(letter.successor_id)
        assert origin is not None
        assert origin.job.id == job_id
        with pytest.raises(AlreadyResolved):
            client.dead.fix(job_id, Edit(patch=patch), reason="again")


def test_a_fix_of_one_can_be_previewed(client):
    job_id = die_of(client, "no")
    preview = client.dead.preview(job_id, Edit(payload={"to": "bob"}, priority=1))
    assert preview.diff == [
        {"path": "$.to", "before": "ada", "after": "bob"},
        {"path": "priority", "before": 5, "after": 1},
    ]
    client.dead.discard([job_id], reason="r")
    with pytest.raises(AlreadyResolved):
        client.dead.preview(job_id, Edit(patch={"to": "bob"}))
    with pytest.raises(JobNotFound):
        client.dead.preview("019b7c2e-9f00-7000-8000-000000000001", Edit(patch={"to": "bob"}))
    with pytest.raises(InvalidJob, match="patch is a list"):
        client.dead.preview_where(DeadFilter(), Edit(patch=cast("dict[str, Any]", [1])))
    with pytest.raises(InvalidJob, match="patch is a list"):
        client.dead.fix_where(DeadFilter(), Edit(patch=cast("dict[str, Any]", [1])), reason="n")


@pytest.mark.parametrize(
    ("rate", "seconds"), [("10/s", 0.1), (4, 0.25), (0.5, 2), ("90/m", 2 / 3), ("2/hour", 1800), ("5", 0.2)]
)
def test_a_rate_is_written_as_people_say_it(rate, seconds):
    assert interval("rate", rate) == pytest.approx(timedelta(seconds=seconds), abs=timedelta(microseconds=1))


@pytest.mark.parametrize(
    "rate", ["", "fast", "0/s", 0, -1, "1/d", float("nan"), float("inf"), True, 1e-9, "1e3/s"]
)
def test_a_rate_that_is_none_is_refused(client, rate):
    with pytest.raises(InvalidSetting, match="rate is"):
        client.dead.replay_where(DeadFilter(), rate=rate, reason="r")


def test_nothing_waits_longer_than_a_year_for_its_turn():
    with pytest.raises(InvalidSetting, match="give a higher rate"):
        dead_bulk.delay_of(400, timedelta(days=1))


@pytest.mark.parametrize("limit", [0, -1, 10_000_000, "5"])
def test_a_limit_is_a_whole_number(client, limit):
    with pytest.raises(InvalidSetting, match="limit is"):
        client.dead.discard_where(DeadFilter(), limit=limit, reason="r")


async def test_an_async_client_does_the_same(anyio_backend, tmp_path):
    from onward import AsyncClient

    with Client(f"sqlite:///{tmp_path}/onward.db") as client:
        client.at(LATER).worker.register("w", lease=timedelta(days=3650))
        ids = [die_of(client, f"no {n}", now=LATER) for n in range(3)]
    async with AsyncClient(f"sqlite:///{tmp_path}/onward.db") as aclient:
        [group] = await aclient.dead.groups()
        assert group.count == 3
        answer = await aclient.dead.replay_where(
            DeadFilter(group=group.fingerprint), rate="1/s", limit=2, reason="r"
        )
        assert answer.done == 2
        [left] = await aclient.dead.list()
        assert left.job.id == ids[2]
        assert (await aclient.dead.fix_where(DeadFilter(), Edit(patch={"to": "bob"}), reason="n")).done == 1


@pytest.mark.parametrize(
    "edit",
    [
        Edit(payload={"to": "bob", "key": {"token": "[redacted]"}}),
        Edit(patch={"key": {"token": "[redacted]"}}),
        Edit(payload={"to": "bob", "urls": ["postgres://ada:[redacted]@db"]}),
    ],
    ids=["payload", "patch", "within a text"],
)
def test_the_mask_of_a_secret_is_no_value_of_a_fix(client, edit):
    job_id = die_of(client, "no", payload={"to": "ada", "note": "[redacted]"})
    with pytest.raises(PayloadRejected, match=r"holds \[redacted\], which stands for a secret.*Edit\(patch="):
        client.dead.fix(job_id, edit, reason="r")
    assert client.dead.get(job_id).resolution is None
    kept = client.dead.fix(job_id, Edit(payload={"to": "bob", "note": "[redacted]"}), reason="r")
    assert client.jobs.get(kept.resolution.successor_id).payload["note"] == "[redacted]"
