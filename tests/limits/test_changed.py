"""Limited jobs that are changed by their key: they need a permit of what they are about then, once due."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from onward import Client, Limit, NewJob, Succeeded
from onward.results import Enqueued
from tests.limits.permits import NOW, SECOND, declared, put, started, states

HOUR = timedelta(hours=1)


@pytest.fixture
def limited(client: Client) -> Client:
    """A client whose limit `sync` lets one job of each customer run."""
    return declared(client, sync=Limit(1))


def ask(client: Client, customer: str, conflict: str = "replace", **about: Any) -> Enqueued:
    """Enqueue the one job with a key, for this customer."""
    options: dict[str, Any] = {"key": "k", "limit_key": f"sync/{customer}", "on_conflict": conflict, **about}
    if conflict == "coalesce":
        options["merge"] = lambda held, asked: {**held, **asked}
    return client.at(NOW).enqueue(NewJob(job_type="t", payload={"customer": customer}, **options))


def names(client: Client, at: Any = NOW) -> list[str]:
    """Claim whatever may start, and name the customers."""
    client.at(at).worker.limits.admit(["sync/a", "sync/b"])
    return [job.payload["customer"] for job in started(client, at) if job.payload]


@pytest.mark.parametrize("conflict", ["replace", "reset", "coalesce"])
def test_a_job_that_is_changed_needs_a_permit_of_what_it_is_about_now(limited: Client, conflict: str) -> None:
    put(limited, "sync/b")
    limited.at(NOW).worker.limits.admit(["sync/b"])
    [holder] = started(limited)
    ask(limited, "a")

    assert ask(limited, "b", conflict).state == "blocked"

    assert names(limited) == []
    limited.at(NOW).worker.finish([holder.end_with(Succeeded())])
    assert names(limited) == ["b"]


def test_who_is_ready_gives_its_permit_on_when_it_is_for_another_customer(limited: Client) -> None:
    put(limited, "sync/b")
    limited.at(NOW).worker.limits.admit(["sync/b"])
    ready = ask(limited, "a")
    limited.at(NOW).worker.limits.admit(["sync/a"])
    assert states(limited, [ready.id]) == ["queued"]

    assert ask(limited, "b").state == "blocked"

    other = put(limited, "sync/a")
    limited.at(NOW).worker.limits.admit(["sync/a", "sync/b"])
    assert states(limited, [*other, ready.id]) == ["queued", "blocked"]


def test_who_is_ready_keeps_its_permit_when_only_its_payload_changes(limited: Client) -> None:
    ready = ask(limited, "a")
    limited.at(NOW).worker.limits.admit(["sync/a"])

    assert ask(limited, "a").state == "queued"
    assert states(limited, [ready.id]) == ["queued"]


def test_a_job_that_is_put_off_while_it_waits_for_a_permit_does_not_start_before_its_time(
    limited: Client,
) -> None:
    first = ask(limited, "a")

    assert ask(limited, "a", delay=HOUR).state == "scheduled"
    assert names(limited) == []

    limited.at(NOW + HOUR + SECOND).worker.promote()
    assert [job.id for job in started(limited, NOW + HOUR + SECOND)] == [first.id]


def test_a_job_that_is_reset_while_it_runs_needs_a_permit_of_its_next_customer(limited: Client) -> None:
    [busy] = put(limited, "sync/b")
    ask(limited, "a")
    limited.at(NOW).worker.limits.admit(["sync/a", "sync/b"])
    running = {job.id: job for job in started(limited)}
    holder = running.pop(busy)
    [mine] = running.values()

    assert ask(limited, "b", "reset").change == "rerun_requested"
    limited.at(NOW).worker.finish([mine.end_with(Succeeded())])

    assert states(limited, [mine.id]) == ["blocked"]
    assert names(limited) == []
    limited.at(NOW).worker.finish([holder.end_with(Succeeded())])
    assert names(limited) == ["b"]


def test_a_job_that_is_reset_after_its_end_needs_a_permit_of_its_next_customer(limited: Client) -> None:
    ask(limited, "a")
    limited.at(NOW).worker.limits.admit(["sync/a"])
    limited.at(NOW).worker.finish([job.end_with(Succeeded()) for job in started(limited)])
    put(limited, "sync/b")
    limited.at(NOW).worker.limits.admit(["sync/b"])
    [holder] = started(limited)

    assert ask(limited, "b", "reset").change == "reset"

    assert names(limited) == []
    limited.at(NOW).worker.finish([holder.end_with(Succeeded())])
    assert names(limited) == ["b"]
