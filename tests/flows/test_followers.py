"""A job that waits for others: when it runs, when it never will, and what it may know of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onward import Client, Edit, Failed, InvalidJob, InvalidSetting, JobNotFound, NewJob, Succeeded
from onward.core.flows.flow import group
from onward.core.jobs.ids import first_id_at
from onward.core.work.error_record import ErrorRecord
from onward.operations.flows import followers
from tests.flows.conftest import die, new, ready, run, state

NOBODY = first_id_at(datetime(2026, 1, 1, tzinfo=UTC))


def test_a_job_runs_after_all_that_it_waits_for(working: Client) -> None:
    flow = new("a").then(new("b"), new("c")).then(new("d"))
    assert [one.state for one in working.enqueue_flow(flow)] == ["queued", "blocked", "blocked", "blocked"]
    assert [run(working) for _ in range(4)] == [["a"], ["b", "c"], ["d"], []]


def test_one_of_two_parents_is_not_enough(working: Client) -> None:
    working.enqueue_flow(group(new("a"), new("b")).then(new("c")))
    first, second = ready(working)
    working.worker.finish([first.end_with(Succeeded())])
    assert ready(working) == []
    working.worker.finish([second.end_with(Succeeded())])
    assert run(working) == ["c"]


def test_what_follows_a_death_is_cancelled_with_the_reason_all_the_way_down(working: Client) -> None:
    dead, child, grandchild = working.enqueue_flow(new("a").then(new("b")).then(new("c")))
    run(working, die)
    assert state(working, dead.id) == "dead"
    job = working.jobs.get(child.id)
    assert job.state == "cancelled"
    assert job.error == ErrorRecord(reason=f"job {dead.id} (a), which it waited for, is dead", cause=dead.id)
    assert working.jobs.get(grandchild.id).error.cause == child.id
    [event] = [event for event in working.jobs.events(child.id) if event.event == "job.cancelled"]
    assert event.detail["cause"] == dead.id


def test_a_cancelled_job_takes_its_followers_along(working: Client) -> None:
    first, second = working.enqueue_flow(new("a").then(new("b", after_failure="wait")))
    working.jobs.cancel(first.id, reason="not needed")
    assert state(working, second.id) == "cancelled"


def test_who_needs_only_an_end_runs_after_a_death(working: Client) -> None:
    working.enqueue_flow(new("a").then(new("clean up", after_needs="ended")))
    run(working, die)
    assert run(working) == ["clean up"]


def test_who_waits_for_a_replay_runs_after_it(working: Client) -> None:
    first, second = working.enqueue_flow(new("a").then(new("b", after_failure="wait")))
    run(working, die)
    assert state(working, second.id) == "blocked"
    working.dead.replay([first.id], reason="mended")
    assert run(working) == ["a"]
    assert run(working) == ["b"]


def test_what_was_cancelled_stays_so_when_its_parent_is_replayed(working: Client) -> None:
    first, second = working.enqueue_flow(new("a").then(new("b")))
    run(working, die)
    working.dead.replay([first.id], reason="mended")
    assert run(working) == ["a"]
    assert (run(working), state(working, second.id)) == ([], "cancelled")


def test_who_waits_for_a_dead_job_that_is_discarded_is_cancelled(working: Client) -> None:
    first, second = working.enqueue_flow(new("a").then(new("b", after_failure="wait")))
    run(working, die)
    working.dead.discard([first.id], reason="of no use")
    working.worker.follow_up()
    assert state(working, second.id) == "cancelled"


def test_who_waits_for_a_dead_job_waits_for_the_one_that_replaces_it(working: Client) -> None:
    first, second = working.enqueue_flow(new("a").then(new("b", after_failure="wait")))
    run(working, die)
    letter = working.dead.fix(first.id, Edit(patch={"n": 1}), reason="mended")
    working.worker.follow_up()
    assert state(working, second.id) == "blocked"
    assert run(working) == ["a"]
    assert run(working) == ["b"]
    assert [job.id for job in working.flows.parents(second.id)] == [letter.successor_id]


def test_a_follower_that_is_due_later_waits_for_its_time_as_well(working: Client) -> None:
    _, second = working.enqueue_flow(new("a").then(new("b", delay=timedelta(hours=1))))
    run(working)
    assert state(working, second.id) == "scheduled"
    working.at(datetime.now(UTC) + timedelta(hours=2)).worker.promote()
    assert run(working) == ["b"]


def test_a_follower_counts_as_ready_from_its_release_on(working: Client) -> None:
    old = datetime.now(UTC) - timedelta(hours=3)
    _, second = working.at(old).enqueue_flow(new("a").then(new("b")))
    run(working)
    assert working.jobs.get(second.id).run_at > old + timedelta(hours=2)


def test_a_job_may_wait_for_some_that_are_there_already(working: Client) -> None:
    a, b = working.enqueue_many([new("a"), new("b")])
    [taken, *_] = ready(working)
    assert working.enqueue(new("c", after=(a.id, b.id))).state == "blocked"
    [other] = working.jobs.get_many([({a.id, b.id} - {taken.id}).pop()]).values()
    working.worker.finish([taken.end_with(Succeeded()), other.end_with(Succeeded())])
    assert run(working) == ["c"]


def test_what_has_succeeded_is_not_waited_for(working: Client) -> None:
    a = working.enqueue(new("a"))
    run(working)
    late = working.enqueue(new("b", after=(a.id, a.id)))
    assert late.state == "queued"
    assert run(working) == ["b"]
    assert [job.id for job in working.flows.parents(late.id)] == [a.id]


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, "cancelled"), ({"after_needs": "ended"}, "queued"), ({"after_failure": "wait"}, "blocked")],
)
def test_what_was_dead_before_counts_at_once(working: Client, options, expected) -> None:
    a = working.enqueue(new("a"))
    run(working, die)
    late = working.enqueue(new("b", after=(a.id,), **options))
    assert (late.state, state(working, late.id)) == (expected, expected)
    working.dead.replay([a.id], reason="mended")
    ran = [*run(working), *run(working)]
    assert ran == (["a"] if expected == "cancelled" else sorted(["a", "b"]))


def test_a_job_that_is_not_there_can_not_be_waited_for(working: Client) -> None:
    with pytest.raises(JobNotFound, match=f"no job {NOBODY}, for which b should wait"):
        working.enqueue_flow(new("a").then(new("b", after=(NOBODY,))))
    assert run(working) == []


def test_the_job_of_another_org_can_not_be_waited_for(working: Client) -> None:
    theirs = working.enqueue(new("a", org_id="acme"))
    for org in ("bolt", None):
        with pytest.raises(JobNotFound):
            working.enqueue(new("b", org_id=org, after=(theirs.id,)))
    assert working.enqueue(new("b", org_id="acme", after=(theirs.id,))).state == "blocked"


@pytest.mark.parametrize(
    "options",
    [{"after": ("x",)}, {"after": "x"}, {"after_needs": "luck"}, {"after_failure": "shrug"}],
)
def test_what_can_not_be_meant_is_refused(working: Client, options) -> None:
    a = working.enqueue(new("a"))
    with pytest.raises(InvalidJob):
        working.enqueue(new("b", **{"after": (a.id,), **options}))


def test_a_job_that_held_its_key_keeps_what_it_waits_for(working: Client) -> None:
    a, other = working.enqueue_many([new("a"), new("other")])
    held = working.enqueue(new("b", key="held", after=(a.id,)))
    again = working.enqueue(new("b", key="held", after=(other.id,)))
    assert (again.id, again.created) == (held.id, False)
    assert [job.id for job in working.flows.parents(held.id)] == [a.id]


@pytest.mark.parametrize("ended", [False, True])
def test_in_a_flow_the_job_that_holds_a_key_is_waited_for(working: Client, ended) -> None:
    held = working.enqueue(new("a", key=f"{ended}", unique="forever"))
    if ended:
        run(working)
    # Both of the parents turn out to be one.
    flow = group(new("a", key=f"{ended}"), new("a", key=f"{ended}")).then(new("b"))
    *parents, child = working.enqueue_flow(flow)
    assert {one.id for one in parents} == {held.id}
    if not ended:
        assert child.state == "blocked"
        assert run(working) == ["a"]
    assert run(working) == ["b"]


def test_a_retry_is_no_end(working: Client) -> None:
    _, child = working.enqueue_flow(new("a").then(new("b")))
    run(working, lambda _: Failed("again"))
    assert state(working, child.id) == "blocked"


def test_deleting_a_job_does_not_leave_its_followers_blocked(working: Client) -> None:
    first, second, third = working.enqueue_flow(
        new("a", subject="booking:1").then(new("b"), new("c", after_needs="ended"))
    )
    working.jobs.drop_subject("booking:1", policy="delete")
    with pytest.raises(JobNotFound):
        working.jobs.get(first.id)
    working.worker.follow_up()
    assert (state(working, second.id), state(working, third.id)) == ("cancelled", "queued")
    assert "was removed" in str(working.jobs.get(second.id).error.reason)


def test_a_parent_with_very_many_followers_is_followed_up_in_parts(working: Client, monkeypatch) -> None:
    monkeypatch.setattr(followers, "_AT_ONCE", 10)
    waiting = [new(f"b{at}", after_failure="wait" if at % 2 else "cancel") for at in range(45)]
    first, *rest = working.enqueue_flow(new("a").then(*waiting))
    run(working, die)
    while working.worker.follow_up():
        pass
    states = [state(working, one.id) for one in rest]
    assert states == ["blocked" if at % 2 else "cancelled" for at in range(45)]
    working.dead.replay([first.id], reason="mended")
    assert run(working) == ["a"]
    while working.worker.follow_up():
        pass
    assert len(run(working)) == 22


def test_a_very_long_chain_is_cancelled_to_its_end(working: Client) -> None:
    flow = new("j0").then(new("j1"))
    for at in range(2, 50):
        flow = flow.then(new(f"j{at}"))
    *_, last = working.enqueue_flow(flow)
    run(working, die)
    while working.worker.follow_up():
        pass
    assert state(working, last.id) == "cancelled"


def test_a_cancelled_follower_that_is_reset_does_not_wait_again(working: Client) -> None:
    a = working.enqueue(new("a"))
    child = working.enqueue(new("b", key="reset", after=(a.id,)))
    working.jobs.cancel(child.id, reason="not now")
    working.enqueue(new("b", key="reset", on_conflict="reset", unique="forever"))
    assert run(working) == ["a", "b"]
    assert state(working, child.id) == "succeeded"


def test_followers_children_and_the_whole_flow_can_be_looked_at(working: Client) -> None:
    answers = working.enqueue_flow(new("a").then(new("b"), new("c")).then(new("d")))
    ids = [one.id for one in answers]
    child = working.enqueue(new("e", parent_id=ids[0]))
    run(working)
    assert [job.job_type for job in working.flows.followers(ids[0])] == ["b", "c"]
    assert [job.job_type for job in working.flows.parents(ids[3])] == ["b", "c"]
    assert [job.id for job in working.flows.children(ids[0])] == [child.id]
    first = working.flows.followers(ids[0], limit=1)
    rest = working.flows.followers(ids[0], limit=1, cursor=first.next_cursor)
    assert [[job.job_type for job in page] for page in (first, rest)] == [["b"], ["c"]]
    assert rest.next_cursor is None
    with pytest.raises(InvalidSetting, match="cursor"):
        working.flows.parents(ids[3], cursor=first.next_cursor)
    graph = working.flows.graph(ids[2])
    assert [job.id for job in graph.jobs] == ids
    assert [(one.parent_id, one.job_id, one.parent_state) for one in graph.links] == [
        (ids[0], ids[1], "succeeded"), (ids[0], ids[2], "succeeded"), (ids[1], ids[3], None),
        (ids[2], ids[3], None),
    ]  # fmt: skip
    assert graph.complete
    part = working.flows.graph(ids[0], limit=2)
    assert (len(part.jobs), len(part.links), part.complete) == (2, 1, False)
    with pytest.raises(JobNotFound):
        working.flows.parents(NOBODY)


def test_the_doctor_says_for_whom_a_job_waits(working: Client) -> None:
    first, _, child = working.enqueue_flow(group(new("a"), new("b")).then(new("c", after_failure="wait")))
    [said] = working.doctor.explain(child.id)
    assert (said.code, said.title) == ("blocked", "it waits for 2 jobs: a (queued), b (queued)")
    run(working, lambda job: die() if job.job_type == "a" else Succeeded())
    [dead] = working.doctor.explain(child.id)
    assert dead.code == "blocked_by_dead"
    assert dead.title.startswith("it waits for 1 job: a (dead); a is dead: replay it")
    found = [one.evidence for one in working.doctor.check() if one.code == "dead_followed"]
    assert {"job_id": first.id, "job_type": "a", "jobs": 1} in found


def test_a_plain_job_is_a_flow_of_one(working: Client) -> None:
    [one] = working.enqueue_flow(NewJob(job_type="a"))
    assert one.state == "queued"
