"""When a job is dead: attempts used up, an unrecoverable error, poison, a crash loop."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from onward import Category, Client, Failed, JobState, NewJob, Onward, RateLimited, RetryPolicy, Unrecoverable
from onward.core.failures.fingerprint import fingerprint
from onward.core.policy.category import category
from onward.core.policy.policies import Policies
from onward.core.work.error_record import ErrorRecord
from onward.errors import InvalidSetting
from tests.failures.dead.dying import SECOND, die_of, fails
from tests.jobs.inspect.reading import rows
from tests.work.leases.dying_processes import T, claim

POISON = replace(category("default").retry, poison_after=3)


def poisonous(client: Client, **options: object) -> Client:
    own = Category(name="default", retry=POISON)
    return Client(store=client.store, policies=Policies.of(categories=[own]))


def test_a_job_that_fails_again_and_again_in_one_way_is_poison(client):
    # S4-42
    client = poisonous(client)
    client.at(T).enqueue(NewJob(job_type="t", max_attempts=10))
    job = claim(client)
    for n in range(3):
        job = fails(client, job, ValueError(f"no row {n}"), T + n * SECOND)
    assert (job.state, job.attempt) == (JobState.DEAD, 3)
    letter = client.dead.get(job.id)
    assert (letter.reason, letter.error_class) == ("poison", "ValueError")
    assert letter.fingerprint == fingerprint("t", ErrorRecord("ValueError", "no row 0"))
    assert letter.job.error is not None
    assert letter.job.error.repeats == 3
    assert [run.error.repeats for run in client.jobs.attempts(job.id) if run.error] == [1, 2, 3]


@pytest.mark.parametrize(
    "errors",
    [
        [ErrorRecord("E", text) for text in ("a", "b", "a", "b")],
        [ErrorRecord("E", "a", rule="timeout")] * 4,
    ],
    ids=["another each time", "known to pass"],
)
def test_what_changes_or_passes_is_no_poison(client, errors):
    # S4-42
    client = poisonous(client)
    client.at(T).enqueue(NewJob(job_type="t", max_attempts=10))
    job = claim(client)
    for n, error in enumerate(errors):
        job = fails(client, job, error, T + n * SECOND)
    assert (job.state, job.attempt) == (JobState.RUNNING, 5)


def test_without_the_setting_only_the_attempts_count(client):
    # S3-28, S4-42
    client.at(T).enqueue(NewJob(job_type="t", max_attempts=4))
    job = claim(client)
    for n in range(4):
        job = fails(client, job, ValueError("no"), T + n * SECOND)
    assert client.dead.get(job.id).reason == "attempts_exhausted"
    assert client.jobs.get(job.id).error.repeats == 4


def test_rate_limits_have_a_fingerprint_and_are_never_poison(client):
    client = poisonous(client)
    client.at(T).enqueue(NewJob(job_type="t"))
    for n in range(4):
        now = T + n * SECOND
        client.at(now).worker.finish([claim(client, now).end_with(RateLimited(1, "later"))]).require()
        client.at(now + SECOND).worker.promote()
    job = claim(client, T + 4 * SECOND)
    assert job.error is not None
    assert job.error.fingerprint == fingerprint("t", ErrorRecord(message="later"))
    assert (job.error.repeats, job.attempt) == (4, 1)


def test_the_strict_profile_knows_poison_for_job_types_too(tmp_path):
    # S4-42
    app = Onward(f"sqlite:///{tmp_path}/a.db", profile="strict")
    retry = RetryPolicy(kind="fixed", base=SECOND)

    @app.job(retry=retry)
    def own() -> None: ...

    @app.job(retry=replace(retry, poison_after=7))
    def other() -> None: ...

    assert [app.policies.registry.retries[name].poison_after for name in ("own", "other")] == [3, 7]
    assert app.policies.category("default").retry.poison_after == 3
    assert Onward(f"sqlite:///{tmp_path}/b.db").policies.category("default").retry.poison_after is None
    app.close()


@pytest.mark.parametrize("after", [0, -1, 1.5, "3", True])
def test_poison_is_counted_in_whole_numbers(after):
    with pytest.raises(InvalidSetting, match="poison_after"):
        replace(POISON, poison_after=after)


def lose(client: Client, worker: str, turn: int) -> JobState:
    now = T + turn * timedelta(hours=1)
    client.at(now).worker.register(worker, lease=SECOND)
    client.at(now).worker.promote()
    [job] = client.at(now).worker.claim("q:default", 1, worker_id=worker)
    client.at(now + timedelta(minutes=10)).worker.rescue()
    return client.jobs.get(job.id).state


def test_a_crash_loop_says_so_whichever_workers_were_lost(client):
    # R6
    job_id = client.at(T).enqueue(NewJob(job_type="t", max_attempts=3)).id
    for turn in range(3):
        lose(client, f"host-{turn}", turn)
    letter = client.dead.get(job_id)
    assert (letter.reason, letter.error_class, letter.job.crashes) == ("crash_loop", "WorkerLost", 3)
    assert letter.job.error is not None
    assert letter.job.error.repeats == 3


def test_one_crash_is_no_loop(client):
    # R6
    job_id = client.at(T).enqueue(NewJob(job_type="t", max_attempts=2)).id
    job = fails(client, claim(client), ValueError("no"), T)
    client.at(T).worker.finish([job.end_with(Failed("again"))])
    letter = client.dead.get(job_id)
    assert letter.reason == "attempts_exhausted"
    other = client.at(T).enqueue(NewJob(job_type="t", max_attempts=1)).id
    assert lose(client, "host", 1) == JobState.DEAD
    assert client.dead.get(other).reason == "attempts_exhausted"


def test_a_row_that_can_not_be_read_has_a_fingerprint_too(tmp_path):
    with Client(f"sqlite:///{tmp_path}/onward.db") as client:
        client.at(T).worker.register("w")
        job_id = client.at(T).enqueue(NewJob(job_type="t", max_attempts=1)).id
        rows(client, "UPDATE {prefix}live SET tags = '{{'")
        assert client.at(T).worker.claim("q:default", worker_id="w") == []
        [group] = client.dead.groups().items
        assert (group.latest, group.error_class) == (job_id, "UnreadableJob")


@pytest.mark.parametrize("hint", [None, "renew the key"])
def test_two_ways_lead_to_the_dead_and_both_stay_in_the_table(app: Onward, hint):
    # S3-28, S3-29, S4-44
    @app.job
    def refused(password_ref: str) -> None:
        raise Unrecoverable("401: password=hunter2hunter2 refused", hint=hint)

    @app.job(max_attempts=1)
    def broken() -> None:
        raise ValueError("no")

    ids = [refused.enqueue(password_ref="vault:1").id, broken.enqueue().id]
    app.tick()
    letters = [app.client.dead.get(job_id) for job_id in ids]
    assert [letter.reason for letter in letters] == ["unrecoverable", "attempts_exhausted"]
    assert [letter.job.attempt for letter in letters] == [1, 1]
    assert letters[0].hint == hint
    assert "hunter2" not in repr(letters)
    for letter in letters:
        app.client.dead.discard([letter.job.id], reason="seen")
        assert app.client.jobs.get(letter.job.id) == letter.job, "it remains for the audit"


def test_the_end_of_a_job_is_audited_either_way(app: Onward):
    # S1-30, S1-31
    @app.job(max_attempts=1, audit_action={"job.deadlettered": "JOB_EXHAUSTED_RETRIES"})
    def give_up() -> None:
        raise ValueError("no")

    @app.job
    def succeed() -> None: ...

    bad, good = give_up.enqueue().id, succeed.enqueue().id
    app.tick()
    last = app.client.jobs.events(bad)[-1]
    assert (last.event, last.action) == ("job.deadlettered", "JOB_EXHAUSTED_RETRIES")
    assert app.client.jobs.events(good)[-1].event == "job.succeeded"


def test_a_secret_has_no_part_in_a_fingerprint(client):
    one, other = (die_of(client, f"refused: password={text}") for text in ("hunter2hunter2", "swordfish123x"))
    assert client.dead.get(one).fingerprint == client.dead.get(other).fingerprint
