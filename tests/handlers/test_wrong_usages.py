"""What a newcomer gets wrong is refused at once, with the call to make instead."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from onward import InvalidJob, InvalidSetting, JobType, NewJob, Onward
from onward.core.inputs.duration import written
from onward.errors import InvalidArguments
from tests.policy.contract.conftest import make_app

__all__ = ["make_app"]


@pytest.fixture
def app(make_app: Any) -> Onward:
    app: Onward = make_app()
    return app


@pytest.fixture
def work(app: Onward) -> JobType[..., Any]:
    @app.job
    def work(n: int = 0) -> None:
        raise NotImplementedError

    return work


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(seconds=-1), "-1s"),
        (timedelta(), "0s"),
        (timedelta(days=7), "7d"),
        (timedelta(hours=1, minutes=30, seconds=5), "1h30m5s"),
        (timedelta(milliseconds=-1500), "-1.5s"),
        (timedelta(days=400, microseconds=1), "400d0.000001s"),
        (-1, "-1"),
    ],
)
def test_a_duration_is_shown_as_people_write_it(length, text):
    assert written(length) == text


@pytest.mark.parametrize("option", ["timeout", "delay", "deadline", "unique"])
@pytest.mark.parametrize("value", [-1, -1.0, timedelta(seconds=-1)])
def test_a_negative_duration_is_refused_where_it_is_set(app, work, option, value):
    why = f"^{option} is -1s; give from 0s to 100 years$"
    with pytest.raises(InvalidJob, match=why):
        work.using(**{option: value})
    if option != "delay":
        with pytest.raises(InvalidJob, match=why):
            app.job(name="declared", **{option: value})(lambda: None)
    with pytest.raises(
        InvalidJob, match=f"{option} is '-1s', which is negative; give a timedelta, seconds, or"
    ):
        work.using(**{option: "-1s"})


def test_a_negative_duration_of_a_job_is_refused_before_it_is_stored(app):
    client = app.client
    with pytest.raises(InvalidJob, match=r"^timeout is -1s; give from 0s to 100 years$"):
        client.enqueue(NewJob(job_type="any", timeout=timedelta(seconds=-1)))
    with pytest.raises(InvalidJob, match=r"^timeout is 5; give a timedelta, such as timedelta"):
        client.enqueue(NewJob(job_type="any", timeout=5))  # type: ignore[arg-type]
    with pytest.raises(InvalidJob, match=r"^unique is 7d, but the job has no key to hold; give key= too"):
        client.enqueue(NewJob(job_type="any", unique=timedelta(days=7)))
    assert client.jobs.list().items == []


def test_nothing_waits_or_runs_for_a_negative_time(app, work):
    handle = work.enqueue()
    for wait in (handle.result, handle.join):
        with pytest.raises(InvalidSetting, match=r"^timeout is -1s; give from 0s to 100 years$"):
            wait(timeout=-1)
    with pytest.raises(InvalidSetting, match=r"^max_seconds is -1s; give a positive duration$"):
        app.tick(max_seconds=-1)
    with pytest.raises(InvalidSetting, match=r"^max_time is -1s"):
        app.worker(max_time=-1)
    with pytest.raises(InvalidSetting, match=r"^grace is -1s"):
        app.worker(grace=-1)
    assert handle.refresh().attempt == 0


@pytest.mark.anyio
async def test_nothing_waits_for_a_negative_time_in_async_code(app, work):
    handle = await work.aenqueue()
    for wait in (handle.aresult, handle.ajoin):
        with pytest.raises(InvalidSetting, match=r"^timeout is -1s"):
            await wait(timeout=-1)
    batch = await app.aenqueue_batch([work.build()])
    with pytest.raises(InvalidSetting, match=r"^timeout is -1s"):
        await batch.ajoin(timeout=-1)
    with pytest.raises(InvalidSetting, match=r"^max_seconds is -1s"):
        await app.atick(max_seconds=-1)
    await app.aclose()


def test_a_lambda_has_no_name_for_its_jobs(app):
    with pytest.raises(InvalidSetting, match=r"a lambda has no name.*write it as a def, or name.*name='…'"):
        app.job(lambda: None)
    with pytest.raises(InvalidSetting, match="a lambda has no name"):
        app.job(priority=3)(lambda: None)
    assert app.handlers == {}
    assert app.job(name="named")(lambda: None).name == "named"


def test_an_option_given_as_an_argument_is_shown_where_it_belongs(app, work):
    why = (
        r'argument "priority".*\n  signature: .*\n  priority is an option .*: \.using\(priority=3\)\.enqueue'
    )
    for way in (work.enqueue, work.build):
        with pytest.raises(InvalidArguments, match=why):
            way(n=1, priority=3)
    with pytest.raises(InvalidArguments, match=r"delay and key are options .*using\(delay='5m', key='k'\)"):
        work.enqueue(delay="5m", key="k")
    with pytest.raises(InvalidArguments) as other:
        work.enqueue(n="x")
    assert "using" not in str(other.value)

    @app.job
    def own(priority: int, queue: str = "") -> None:
        raise NotImplementedError

    assert own.build(priority=3).payload == {"priority": 3}
    with pytest.raises(InvalidArguments) as wrong:
        own.enqueue(priority="3")
    assert "using" not in str(wrong.value)


@pytest.mark.parametrize("name", ["delay", "apply_async"])
def test_the_verbs_of_celery_name_those_to_use(work, name):
    for job_type in (work, work.using(priority=3)):
        with pytest.raises(AttributeError, match=rf"has no \.{name}\(\); .* \.enqueue\(…\).*\.using\(delay="):
            getattr(job_type, name)
    assert not hasattr(work, name)
    with pytest.raises(AttributeError, match=r"'JobFunction' object has no attribute 'deley'"):
        work.deley  # noqa: B018


def test_a_context_without_a_type_is_told_how_to_be_one(app):
    @app.job
    def greet(ctx, n: int) -> None: ...

    with pytest.raises(InvalidArguments, match="If ctx is Onward's Context, annotate it: ctx: Context"):
        greet.enqueue(n=1)


@pytest.mark.parametrize(
    ("option", "meant"), [("retries", "max_attempts"), ("countdown", "delay"), ("eta", "run_at")]
)
def test_an_option_of_another_queue_is_told_by_its_name_here(app, option, meant):
    @app.job
    def greet() -> None: ...

    with pytest.raises(InvalidSetting, match=f'no option "{option}". Did you mean "{meant}"'):
        greet.using(**{option: 3})


def test_a_job_type_with_retries_is_told_of_its_attempts(app):
    with pytest.raises(InvalidSetting, match=r'no option "retries"\. Did you mean "max_attempts"'):
        app.job(retries=3)(lambda: None)
