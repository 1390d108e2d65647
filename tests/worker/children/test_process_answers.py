"""What a handler in a child process gets, and what of its end comes back to the worker."""

import os
import signal
import subprocess
import sys
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from onward import Cancelled, Client, RateLimited, Retry, Skip, Snooze, Unrecoverable
from onward.core.failures.classify import classify, describe
from onward.core.work.lifecycle import Failed
from onward.errors import InvalidJob
from onward.worker.children.process_pool import ProcessPool
from onward.worker.children.protocol import ChildError
from tests.stores.postgres.postgres_schema import clean_schema
from tests.worker.children import child_jobs as jobs
from tests.worker.children.child_jobs import MB, attempt, run

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def shared(anyio_backend):
    """A pool for tests that leave its child alone."""
    pool = ProcessPool(1)
    yield pool
    await pool.close()


async def test_a_handler_gets_its_checked_arguments_and_its_result_comes_back(shared):
    payload: dict[str, Any] = {
        "number": "00000000-0000-0000-0000-000000000001",
        "day": "2026-01-02",
        "words": ["é"],
    }
    assert await run(shared, jobs.typed, **payload) == {
        "number": f"{1:032x}",
        "year": 2026,
        "words": ["é", "é"],
    }


async def test_a_child_is_another_process_and_is_used_again(shared):
    first = await run(shared, jobs.process_id)
    assert first != os.getpid()
    assert await run(shared, jobs.process_id) == first


async def test_the_context_knows_the_job(shared):
    one = attempt()
    one.job.payload["job_id"] = one.job.id
    told = await shared.run(jobs.about_job.handler, one, timeout=60)
    assert msgspec.convert(told, type(one.job)) == one.job


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
async def test_the_context_enqueues_into_the_database_of_the_worker(database, tmp_path, request):
    if database == "sqlite":
        with Client(f"sqlite:///{tmp_path}/jobs.db") as client:
            await enqueue_by_context(client, f"sqlite:///{tmp_path}/jobs.db", "onward")
    else:
        url = request.getfixturevalue("postgres_url")
        with clean_schema(url) as store:
            await enqueue_by_context(Client(store=store), url, store.prefix.strip('".'))


async def enqueue_by_context(client: Client, url: str, schema: str) -> None:
    pool = ProcessPool(1, url=url, schema=schema)
    try:
        child_id = await run(pool, jobs.enqueue_child)
    finally:
        await pool.close()
    assert client.jobs.get(child_id).job_type == "follow_up"


@pytest.mark.parametrize("job_type", [jobs.end, jobs.give_back], ids=["raised", "returned"])
@pytest.mark.parametrize(
    ("how", "kind", "fields"),
    [
        ("skip", Skip, {"reason": "nothing to do"}),
        ("snooze", Snooze, {"delay": 90.0}),
        ("snooze by text", Snooze, {"delay": "10m"}),
        (
            "limited",
            RateLimited,
            {"after": "2s", "error": {"error_class": "HandlersOwn", "message": "slow down"}, "counted": True},
        ),
        ("cancelled", Cancelled, {"reason": "gave way"}),
        ("retry", Retry, {"args": ("again",), "after": timedelta(seconds=7)}),
        ("fatal", Unrecoverable, {"args": ("key refused",), "hint": "renew it"}),
        ("invalid", InvalidJob, {"args": ("priority is 0",)}),
    ],
)
async def test_our_own_exceptions_come_back_as_they_were(shared, job_type, how, kind, fields):
    with pytest.raises(kind) as caught:
        await run(shared, job_type, how=how)
    assert {name: getattr(caught.value, name) for name in fields} == fields


async def test_any_other_exception_comes_back_described(shared):  # A14
    with pytest.raises(ChildError, match="HandlersOwn: no é") as caught:
        await run(shared, jobs.end, how="own")
    described = describe(caught.value)
    assert described.error_class == "HandlersOwn"
    assert described.message == "no é \ufffd more"
    assert described.traceback.splitlines()[1].endswith("in end")


async def test_a_derived_exception_keeps_its_name_and_its_meaning(shared):
    with pytest.raises(Unrecoverable) as caught:
        await run(shared, jobs.end, how="fatal")
    outcome = classify(caught.value)
    assert isinstance(outcome, Failed)
    assert not outcome.retryable
    assert outcome.error.error_class == "HandlersFatal"
    assert outcome.error.link == "https://example.com/keys"


async def test_an_exit_of_the_handler_fails_its_job_and_spares_the_child(shared):
    before = await run(shared, jobs.process_id)
    with pytest.raises(ChildError, match="SystemExit: 4"):
        await run(shared, jobs.end, how="exit")
    assert await run(shared, jobs.process_id) == before


async def test_arguments_that_do_not_fit_are_the_jobs_fault(shared):
    with pytest.raises(InvalidJob, match="tmies"):
        await run(shared, jobs.typed, number=f"{1:032x}", day="2026-01-02", words=[], tmies=3)


async def test_a_job_type_is_found_by_the_function_that_it_was_made_of(shared):
    assert await run(shared, jobs.plain_type) == "plain"


async def test_a_job_type_that_another_process_can_not_find_fails_clearly(shared):
    @jobs.app.job(name="hidden")
    def hidden() -> None: ...

    with pytest.raises(ChildError, match=r"hidden' is not found .* at the top of its module"):
        await run(shared, hidden)


async def test_what_has_an_obvious_form_in_json_is_a_result(shared):
    assert await run(shared, jobs.answer, how="plain") == {"a": [1, 2.5, None, True, "é"]}
    assert await run(shared, jobs.answer, how="typed") == [str(UUID(int=1)), "2026-01-02", ["set"]]


async def test_a_result_that_is_no_json_fails_and_says_where(shared):
    with pytest.raises(ChildError, match=r"PayloadRejected: result at \$\.deep\[0\]: .* is an object"):
        await run(shared, jobs.answer, how="object")


async def test_a_large_result_comes_back_whole(shared):
    assert await run(shared, jobs.answer, how="large") == "x" * (5 * MB)


async def test_a_large_payload_arrives(shared):
    words = ["x" * (5 * MB)]
    result = await run(shared, jobs.typed, number=f"{1:032x}", day="2026-01-02", words=words, times=1)
    assert result["words"] == words


async def test_a_child_inherits_nothing_and_no_signals_of_our_group(shared):  # F13
    inheritable = os.dup2(0, 200, inheritable=True)
    try:
        pool = ProcessPool(1)
        assert await run(pool, jobs.own_group_and_descriptor, descriptor=inheritable) == [True, False]
        await pool.close()
    finally:
        os.close(inheritable)


async def test_a_keyboard_interrupt_is_for_the_parent(shared):
    assert await run(shared, jobs.kill, number=signal.SIGINT) == "alive"


def test_a_script_that_enqueues_when_it_is_imported_is_told_so_and_multiplies_nothing(tmp_path):
    script = tmp_path / "unguarded.py"
    script.write_text(
        "import asyncio\n"
        "from onward import Onward\n"
        f"app = Onward('sqlite:///{tmp_path}/onward.db')\n"
        "@app.job(executor='process')\n"
        "def square(n: int) -> int:\n"
        "    return n * n\n"
        "job = square.enqueue(4)\n"
        "asyncio.run(app.worker(drain=True).run())\n"
        "print(job.refresh().error.message)\n"
        "print(sum(app.client.jobs.count().ended.values()))\n"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    message, count = ran.stdout.splitlines()
    assert 'put that under: if __name__ == "__main__":' in message
    assert count == "1"
