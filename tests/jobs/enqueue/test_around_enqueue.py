"""The functions around an enqueue: what they may change, what they are sent, and what their errors do."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from msgspec.structs import replace

from onward import InvalidJob, InvalidSetting, NewJob, NotAllowed, Onward
from onward.errors import InvalidArguments
from onward.results import Enqueued
from tests.worker.waiting import drain

Steps = Generator[NewJob, Enqueued, None]


def tags_of(app: Onward, *ids: str) -> list[Any]:
    found = app.client.jobs.get_many(ids)
    return [found[one].tags for one in ids]


@pytest.fixture
def note(app: Onward) -> Any:
    @app.job
    def note(text: str = "") -> None: ...

    return note


def tagging(app: Onward, tag: str) -> list[Enqueued]:
    """Add a tag to each job; return the list of what their enqueues came to."""
    seen: list[Enqueued] = []

    @app.around_enqueue
    def tagged(new: NewJob) -> Steps:
        seen.append((yield replace(new, tags=[*(new.tags or []), tag])))

    return seen


WAYS = {
    "enqueue": lambda app, note: [note.enqueue().id],
    "options": lambda app, note: [note.using(tags=[]).enqueue().id],
    "many": lambda app, note: [one.id for one in app.enqueue_many([note.build("a"), note.build("b")])],
    "flow": lambda app, note: app.enqueue_flow(note.build("a").then(note.build("b"))).ids,
    "batch": lambda app, note: [
        job.id for job in app.client.batches.jobs(app.enqueue_batch([note.build("a"), note.build("b")]).id)
    ],
    "client": lambda app, note: [app.client.enqueue(NewJob(job_type="note")).id],
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_function_around_enqueues_changes_the_job_and_sees_the_answer(app, note, way):
    seen = tagging(app, "web")
    ids = WAYS[way](app, note)
    assert tags_of(app, *ids) == [["web"]] * len(ids)
    assert {one.id for one in seen} == set(ids)
    assert all(one.created for one in seen)


async def async_ids(app: Onward, note: Any) -> list[str]:
    made = [await note.aenqueue("a"), *(await app.aenqueue_many([note.build("b")]))]
    flow = await app.aenqueue_flow(note.build("c").then(note.build("d")))
    await app.aclose()
    return [one.id for one in (*made, *flow)]


@pytest.mark.anyio
async def test_async_enqueues_pass_the_same_function(app, note):
    seen = tagging(app, "web")
    ids = await async_ids(app, note)
    assert tags_of(app, *ids) == [["web"]] * 4
    assert sorted(one.id for one in seen) == sorted(ids)


def test_the_first_registered_is_outermost_and_they_see_what_the_job_inherits(app, note):
    order: list[str] = []

    def named(name: str) -> Any:
        def function(new: NewJob) -> Steps:
            order.append(f"{name} {new.org_id} {new.tags}")
            answer = yield replace(new, tags=[*(new.tags or []), name])
            order.append(f"{name} {answer.created}")

        return function

    app.around_enqueue(named("first"))
    app.around_enqueue(named("second"))
    with app.context(org_id="acme"):
        made = note.enqueue()
    assert order == ["first acme None", "second acme ['first']", "second True", "first True"]
    assert tags_of(app, made.id) == [["first", "second"]]


@pytest.mark.anyio
async def test_the_children_of_a_job_pass_it_too(app, note):
    tagging(app, "web")

    @app.job
    async def parent() -> str:
        made: str = (await note.aenqueue()).id
        return made

    handle = await parent.aenqueue()
    await drain(app)
    assert tags_of(app, (await handle.aresult())) == [["web"]]
    await app.aclose()


def test_what_it_made_of_a_job_is_checked_like_any_job(app, note):
    @app.around_enqueue
    def spoil(new: NewJob) -> Steps:
        yield replace(new, tags=[""])

    with pytest.raises(InvalidJob, match="tag"):
        note.enqueue()
    assert app.client.jobs.list().items == []


def test_arguments_that_it_changed_are_checked_like_those_of_a_caller(app, note):
    @app.around_enqueue
    def spoil(new: NewJob) -> Steps:
        yield replace(new, payload={"txt": "a"})

    for enqueue in (note.enqueue, lambda: app.client.enqueue(NewJob(job_type="note"))):
        with pytest.raises(InvalidArguments, match='Did you mean "text"'):
            enqueue()
    with pytest.raises(InvalidArguments, match='Did you mean "text"'):
        app.enqueue_many([note.build("a")])
    assert app.client.jobs.list().items == []


def test_a_job_whose_type_it_changed_is_filled_in_by_the_new_type(app, note):
    @app.job(queue="q:letters", key="letter_{text}")
    def letter(text: str = "dear") -> None: ...

    @app.around_enqueue
    def as_letter(new: NewJob) -> Steps:
        yield replace(new, job_type="letter")

    made = [note.enqueue(), app.enqueue_many([note.build("a")])[0]]
    found = [one.refresh() for one in made]
    assert [(one.job_type, one.queue, one.key) for one in found] == [
        ("letter", "q:letters", "letter_dear"), ("letter", "q:letters", "letter_a"),
    ]  # fmt: skip


def test_a_client_of_one_org_is_confined_also_in_what_it_made_of_a_job(app, note):
    @app.around_enqueue
    def elsewhere(new: NewJob) -> Steps:
        yield replace(new, org_id="other")

    with pytest.raises(NotAllowed):
        app.client.for_org("acme").enqueue(NewJob(job_type="note"))
    assert app.client.jobs.list().items == []


def test_an_error_of_the_enqueue_reaches_it_and_its_own_error_refuses_the_job(app, note):
    errors: list[Exception] = []

    @app.around_enqueue
    def watch(new: NewJob) -> Steps:
        try:
            yield new
        except Exception as error:
            errors.append(error)
            raise

    @app.around_enqueue
    def refuse(new: NewJob) -> Steps:
        if new.payload["text"] == "spam":
            raise InvalidJob("no spam")
        yield new

    with pytest.raises(InvalidJob, match="no spam"):
        note.enqueue("spam")
    with pytest.raises(InvalidJob, match="no spam"):
        app.enqueue_many([note.build("fine"), note.build("spam")])
    assert [str(error) for error in errors] == ["no spam"] * 3
    assert app.client.jobs.list().items == []


def test_a_function_can_not_swallow_the_error_of_an_enqueue(app, note):
    @app.around_enqueue
    def swallow(new: NewJob) -> Steps:
        try:
            yield replace(new, priority=2000)
        except InvalidJob:
            return

    with pytest.raises(InvalidJob, match="priority"):
        note.enqueue()


def test_one_that_does_not_yield_once_is_refused(app, note):
    with pytest.raises(InvalidSetting, match="does not yield"):
        app.around_enqueue(lambda new: new)

    never = [True]

    @app.around_enqueue
    def wrong(new: NewJob) -> Steps:
        if not never[0]:
            yield new
            yield new

    with pytest.raises(InvalidSetting, match="before its yield"):
        note.enqueue()
    never[0] = False
    with pytest.raises(InvalidSetting, match="yielded twice"):
        note.enqueue()
    app.policies.registry.around_enqueue.clear()

    @app.around_enqueue
    def nothing(new: NewJob) -> Any:
        yield None

    with pytest.raises(InvalidSetting, match="yield the job"):
        note.enqueue()
