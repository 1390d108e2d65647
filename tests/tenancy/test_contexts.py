"""Within `app.context(org_id=…)` a client reads and changes what belongs to that org, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from onward import DeadFilter, JobFilter, JobNotFound, JobState, NewJob, NotAllowed, Onward

SUBJECT = "booking:42"
MANY: dict[str, Callable[[Onward], object]] = {
    "drop_subject": lambda app: app.client.jobs.drop_subject(SUBJECT, policy="delete"),
    "cancel_subject": lambda app: app.client.jobs.cancel_subject(SUBJECT, reason="r"),
    "cancel_where": lambda app: app.client.jobs.cancel_where(JobFilter(subject=SUBJECT), reason="r"),
    "keys.forget": lambda app: app.client.keys.forget("k", reason="r"),
}


def jobs_of_each(app: Onward) -> dict[str | None, str]:
    """Enqueue a job of one subject for two orgs and for none; gives their ids."""
    new = NewJob(job_type="t", subject=SUBJECT, key="k")
    return {
        None: app.client.enqueue(new).id,
        "a": app.client.for_org("a").enqueue(new).id,
        "b": app.client.for_org("b").enqueue(new).id,
    }


@pytest.mark.parametrize("what", MANY)
def test_an_act_upon_many_jobs_reaches_those_of_the_contexts_org_alone(app, what):  # R14 R22
    ids = jobs_of_each(app)
    with app.context(org_id="a"):
        MANY[what](app)
    left = app.client.jobs.get_many(list(ids.values()))
    assert [left[ids[org]].state for org in (None, "b")] == [JobState.QUEUED] * 2
    keys = {key.org_id for key in app.client.keys.list()}
    assert "b" in keys
    reached = ids["a"] not in left or left[ids["a"]].state == JobState.CANCELLED
    assert reached or "a" not in keys


def in_a_thread(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def in_a_pool(function: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(function).result()


@pytest.mark.parametrize("by", [in_a_thread, in_a_pool])
def test_a_thread_that_starts_in_a_context_is_confined_by_it(app, by):  # R14 R22
    ids = jobs_of_each(app)
    with app.context(org_id="a"):
        by(lambda: MANY["drop_subject"](app))
    assert set(app.client.jobs.get_many(list(ids.values()))) == {ids[None], ids["b"]}


def test_a_pool_acts_for_the_context_of_each_call(app):  # R14
    with ThreadPoolExecutor(1) as pool:
        asked = []
        for org_id in ("a", "b"):
            with app.context(org_id=org_id):
                asked.append(pool.submit(lambda: app.client.org_id))
        asked.append(pool.submit(lambda: app.client.org_id))
        assert [one.result() for one in asked] == ["a", "b", None]


@pytest.mark.anyio
async def test_an_async_client_is_confined_by_the_context_alike(app):  # R14 R22
    ids = jobs_of_each(app)
    try:
        with app.context(org_id="a"):
            dropped = await app.aclient.jobs.drop_subject(SUBJECT, policy="delete")
            with pytest.raises(JobNotFound):
                await app.aclient.jobs.get(ids["b"])
        assert dropped.deleted == {ids["a"]}
        assert set(await app.aclient.jobs.get_many(list(ids.values()))) == {ids[None], ids["b"]}
    finally:
        await app.aclose()


def test_what_a_client_reads_in_a_context_is_of_its_org(app):  # R14
    ids = jobs_of_each(app)
    with app.context(org_id="a"):
        assert [job.id for job in app.client.jobs.list()] == [ids["a"]]
        assert app.client.org_id == "a"
        assert app.client.dead.list(DeadFilter(resolved="any")).items == []
        assert app.client.artifacts.put("n", b"x").org_id == "a"
    assert len(app.client.jobs.list().items) == 3


def test_what_concerns_all_orgs_is_refused_in_a_context_of_one(app):  # R14
    with app.context(org_id="a"):
        for refused in (
            lambda: app.client.gate.close(reason="r"),
            lambda: app.client.queues.pause("q:default", reason="r"),
            lambda: app.schedule("s", NewJob(job_type="t"), every="1h"),
            lambda: app.client.orgs.pause("b", reason="r"),
        ):
            with pytest.raises(NotAllowed, match=r"outside of a handler and of app.context\(org_id=…\)"):
                refused()
        assert app.client.orgs.pause("a", reason="r").changed


def test_what_names_its_org_itself_takes_precedence_over_a_context(app):  # R14
    with app.context(org_id="a", project_id="p"):
        assert app.client.for_org("b").enqueue(NewJob(job_type="t")).created
        named = app.client.enqueue(NewJob(job_type="t", org_id="c")).id
        assert app.client.for_org("b").org_id == "b"
        with app.context(org_id="d"):
            assert app.client.org_id == "d"
    assert app.client.jobs.get(named).org_id == "c"


def test_a_signal_sent_in_a_context_still_wakes_its_receiver_at_once(app):  # R14
    with app.context(org_id="a"):
        app.signal("paid", key="k")
    [kept] = app.client.signals.list("paid")
    assert kept.org_id == "a"


def test_the_worker_of_an_application_is_not_confined_by_the_context_it_starts_in(app):  # R14
    @app.job
    def work() -> None: ...

    handle = work.using(org_id="b").enqueue()
    with app.context(org_id="a"):
        app.tick()
    assert handle.refresh().state == JobState.SUCCEEDED
