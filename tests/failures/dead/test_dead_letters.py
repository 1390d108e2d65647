"""Dead letters: a dead job keeps why it died, and its death is replayed, discarded or fixed, once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast
from uuid import UUID

import pytest

from onward import (
    Client,
    DeadFilter,
    Edit,
    Failed,
    InvalidJob,
    InvalidSetting,
    JobFilter,
    JobNotFound,
    JobState,
    NewJob,
    Onward,
    Succeeded,
    Unrecoverable,
)
from onward.core.policy.policies import Policies
from onward.core.policy.settings import AuditLevel
from onward.core.records.usage import Usage
from onward.errors import AlreadyResolved, InvalidArguments, SecretInPayload
from onward.results import Bulk, DeadLetter
from tests.jobs.inspect.reading import rows
from tests.work.leases.dying_processes import DEAD, LATER, T, claim, die, discard, events, replay, waiting

DEAD_QUEUE = "q:deadletter"


def test_a_dead_job_keeps_why_it_died_and_what_would_help(app: Onward):
    # R8, S4-42, S4-44: unrecoverable errors are poison at once.
    @app.job
    def send(password_ref: str) -> None:
        raise Unrecoverable(
            "refused: password=hunter2hunter2", hint="renew the contract", link="https://example.com/runbook"
        )

    handle = send.enqueue(password_ref="vault:7")
    app.tick()
    letter = app.client.dead.get(handle.id)
    assert (letter.reason, letter.error_class) == ("unrecoverable", "Unrecoverable")
    assert (letter.hint, letter.link) == ("renew the contract", "https://example.com/runbook")
    assert letter.message is not None
    assert letter.message.startswith("refused: password=")
    assert "hunter2" not in repr(letter)
    assert letter.job.error is not None
    assert letter.job.error.traceback is not None
    assert letter.resolution is None


def test_a_job_that_has_used_up_its_attempts_is_a_dead_letter(client):
    # S4-42, S4-43
    job_id = client.at(T).enqueue(NewJob(job_type="t", max_attempts=2)).id
    for attempt in range(2):
        assert waiting(client) == []
        now = T + attempt * timedelta(hours=1)
        client.at(now).worker.promote()
        client.at(now).worker.finish(
            [claim(client, now).end_with(Failed(ValueError("boom"), after=1))]
        ).require()
    [letter] = client.dead.list().items
    assert letter.job.id == job_id
    assert (letter.reason, letter.error_class, letter.message) == (
        "attempts_exhausted",
        "ValueError",
        "boom",
    )


def test_nothing_is_written_about_a_death_until_somebody_resolves_it(client):
    job = die(client)
    assert rows(client, "SELECT * FROM {prefix}dead_letters") == []
    discard(client, job.id)
    assert len(rows(client, "SELECT * FROM {prefix}dead_letters")) == 1


def test_the_newest_come_first_page_by_page_and_can_be_narrowed(client):
    ids = [die(client, job_type=kind).id for kind in ("a", "b", "a")]
    page = client.dead.list(limit=2)
    assert [letter.job.id for letter in page] == [ids[2], ids[1]]
    rest = client.dead.list(limit=2, cursor=page.next_cursor)
    assert ([letter.job.id for letter in rest], rest.next_cursor) == ([ids[0]], None)
    assert waiting(client, job_type="a") == [ids[2], ids[0]]
    discard(client, ids[1])
    assert waiting(client) == [ids[2], ids[0]]
    assert waiting(client, resolved="yes") == [ids[1]]
    assert waiting(client, resolved="any") == ids[::-1]


def test_dead_letters_are_a_queue_in_every_listing(client):
    # R8, S4-43, S0-78: q:deadletter
    first, second, third = (die(client, queue=None, job_type=kind).id for kind in "abc")
    client.at(T).enqueue(NewJob(job_type="a"))

    def shown(**fields: Any) -> list[str]:
        return [job.id for job in client.jobs.list(JobFilter(queue=DEAD_QUEUE, **fields)).items]

    assert shown() == [third, second, first]
    assert client.jobs.count().of_queue(DEAD_QUEUE) == {JobState.DEAD: 3}
    discard(client, second)
    assert shown() == shown(state="dead") == [third, first]
    assert shown(job_type="a") == [first]
    assert shown(state="queued") == shown(state="succeeded") == shown(state="retrying") == []
    counts = client.jobs.count()
    assert (counts.dead_letters, counts.total(JobState.DEAD)) == (2, 3)
    assert counts.of_queue("q:default") == {JobState.QUEUED: 1}
    assert [job.id for job in client.jobs.list(JobFilter(state="dead")).items] == [third, second, first]
    client.at(LATER).dead.replay([first, third], reason="again")
    assert shown() == []
    assert client.jobs.count().of_queue(DEAD_QUEUE) == {}


def test_a_replayed_job_starts_again_under_its_id_and_its_last_run_is_history(client):
    # R8, S4-46
    died = die(client, key="k", max_attempts=1, subject="s:1", tags=["x"])
    answer = replay(client, died.id)
    assert answer == Bulk(found=1, done=1)
    job = client.jobs.get(died.id)
    assert (job.state, job.attempt, job.waits, job.crashes) == (JobState.QUEUED, 0, 0, 0)
    assert (job.error, job.run_at, job.lease) == (None, LATER, died.lease + 1)
    assert (job.payload, job.key, job.subject, job.tags) == (died.payload, "k", "s:1", ["x"])
    assert waiting(client, resolved="any") == []
    [run] = client.jobs.attempts(died.id)
    assert (run.lease, run.outcome, run.error_class) == (died.lease, "failed", "Bounced")
    [became] = client.dead.history(died.id)
    assert (became.resolution, became.lease, became.reason) == ("replayed", died.lease, "the server is back")
    assert (became.at, became.actor_type, became.actor_id) == (LATER, "user", "ada")
    client.at(LATER).worker.finish([claim(client, LATER).end_with(Succeeded("sent"))]).require()
    assert client.jobs.get(died.id).result == "sent"
    assert [run.outcome for run in client.jobs.attempts(died.id)] == ["failed", "succeeded"]


def test_a_replay_can_leave_the_count_of_attempts_for_one_more_try(client):
    died = die(client, Failed("boom"), max_attempts=1)
    replay(client, died.id, reset_attempts=False)
    again = claim(client, LATER)
    assert (again.attempt, again.error) == (2, None)
    client.at(LATER).worker.finish([again.end_with(Failed("boom"))]).require()
    assert client.dead.get(died.id).reason == "attempts_exhausted"


def test_a_job_that_dies_again_after_a_replay_waits_for_somebody_anew(client):
    died = die(client)
    replay(client, died.id)
    again = claim(client, LATER)
    client.at(LATER).worker.finish([again.end_with(DEAD)]).require()
    letter = client.dead.get(died.id)
    assert (letter.resolution, letter.job.lease > died.lease) == (None, True)
    assert discard(client, died.id).done == 1
    assert [became.resolution for became in client.dead.history(died.id)] == ["replayed", "discarded"]
    assert [run.lease for run in client.jobs.attempts(died.id)] == [died.lease, again.lease]


def test_what_a_run_cost_goes_with_it_into_the_history(client):
    client.at(T).enqueue(NewJob(job_type="t"))
    job = claim(client)
    client.at(T).worker.write(
        [client.policies.end_of(job, DEAD, 0.5, (Usage.checked("tokens", 1, 30),))]
    ).require()
    replay(client, job.id)
    assert [run.cost_micros for run in client.jobs.attempts(job.id)] == [30]
    assert client.jobs.get(job.id).cost_micros == 30


def test_a_deadline_that_has_passed_does_not_kill_a_replayed_job_and_one_to_come_stays(client):
    past, future = T + timedelta(minutes=1), LATER + timedelta(days=1)
    late, early = die(client, deadline=past), die(client, deadline=future)
    replay(client, late.id, early.id)
    assert (client.jobs.get(late.id).deadline, client.jobs.get(early.id).deadline) == (None, future)


def test_a_discarded_job_stays_as_it_is_and_says_why_nobody_cares(client):
    # R8, S4-46
    died = die(client)
    before = client.jobs.get(died.id)
    assert discard(client, died.id) == Bulk(found=1, done=1)
    assert client.jobs.get(died.id) == before
    became = client.dead.get(died.id).resolution
    assert became is not None
    assert (became.resolution, became.reason, became.actor_id) == ("discarded", "not needed", "ada")


def test_a_fix_is_an_edited_copy_and_both_know_of_each_other(client):
    # R8, S4-46: linked both ways, with diff, actor and note.
    died = die(
        client, org_id="o", project_id="p", subject="s:1", tags=["x"], actor_type="user", actor_id="7",
        request_id="r", correlation_id="c", category="notification", queue="q:default",
        timeout=timedelta(seconds=9),
    )  # fmt: skip
    before = client.jobs.get(died.id)
    ada = client.at(LATER).acting_as("user:ada")
    patch = {"to": "bob", "n": None, "cc": 1}
    letter = ada.dead.fix(died.id, Edit(patch=patch, priority=2, max_attempts=9), reason="a typo")
    assert client.jobs.get(died.id) == before, "the original is left untouched"
    assert letter == client.dead.get(died.id)
    became = letter.resolution
    assert became is not None
    assert (became.resolution, became.reason, became.at) == ("fixed", "a typo", LATER)
    assert (became.actor_type, became.actor_id) == ("user", "ada")
    assert became.diff == [
        {"path": "$.cc", "after": 1},
        {"path": "$.n", "before": [1]},
        {"path": "$.to", "before": "ada", "after": "bob"},
        {"path": "priority", "before": 5, "after": 2},
        {"path": "max_attempts", "before": before.max_attempts, "after": 9},
    ]
    assert letter.successor_id is not None
    made = client.jobs.get(letter.successor_id)
    assert (made.payload, made.priority, made.max_attempts) == ({"to": "bob", "cc": 1}, 2, 9)
    for field in (
        "job_type", "org_id", "project_id", "subject", "category", "queue", "actor_type", "actor_id",
        "request_id", "correlation_id", "tags", "timeout_micros",
    ):  # fmt: skip
        assert getattr(made, field) == getattr(before, field), field
    assert (made.parent_id, made.state, made.run_at) == (died.id, JobState.QUEUED, LATER)
    assert client.dead.origin(made.id) == letter
    assert client.dead.origin(died.id) is None
    assert claim(client, LATER).id == made.id


def test_a_whole_payload_can_be_given_and_the_queue_be_another(client):
    died = die(client)
    letter = client.dead.fix(died.id, Edit(payload={"all": "new"}, queue="q:slow"), reason="n")
    made = client.jobs.get(letter.successor_id)
    assert (made.payload, made.queue) == ({"all": "new"}, "q:slow")


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        ({}, InvalidSetting, "changes nothing"),
        ({"patch": {"to": "ada"}}, InvalidSetting, "changes nothing"),
        ({"patch": {"a": 1}, "payload": {"a": 1}}, InvalidSetting, "both set"),
        ({"payload": [1]}, InvalidJob, "payload is a list"),
        ({"payload": {"a": float("nan")}}, InvalidJob, r"\$\.a"),
        ({"patch": {"password": "hunter2hunter2"}}, SecretInPayload, r"\$\.password"),
        ({"priority": 1001}, InvalidJob, "priority"),
        ({"max_attempts": 0}, InvalidJob, "max_attempts"),
        ({"queue": DEAD_QUEUE}, InvalidJob, DEAD_QUEUE),
    ],
)
def test_a_fix_is_checked_like_an_enqueue_and_a_refused_one_leaves_nothing(client, edit, error, message):
    died = die(client)
    with pytest.raises(error, match=message):
        client.dead.fix(died.id, Edit(**edit), reason="n")
    assert waiting(client) == [died.id]
    assert client.jobs.count().live == {}


def test_a_fix_that_makes_no_sense_is_refused_before_its_job_is_looked_for(client):
    nobody: dict[str, Any] = {"job_id": "019a8c42-7d1e-7c3a-9b5e-0f6a2d4c8e10", "reason": "r"}
    with pytest.raises(InvalidSetting, match="both set"):
        client.dead.fix(edit=Edit(patch={}, payload={}), **nobody)
    with pytest.raises(InvalidJob, match="patch is a list"):
        client.dead.fix(edit=Edit(patch=cast("dict[str, Any]", [1])), **nobody)


def test_a_death_is_resolved_once(client):
    # R8
    thrown, fixed, replayed = (die(client).id for _ in range(3))
    discard(client, thrown)
    successor = client.dead.fix(fixed, Edit(patch={"to": "bob"}), reason="n").successor_id
    replay(client, replayed)
    nowhere = "019b7c2e-9f00-7000-8000-000000000001"
    whys = {
        thrown: "it was discarded already",
        fixed: "it was fixed already",
        replayed: "it is queued, not dead",
        nowhere: "no such job",
    }
    assert replay(client, *whys) == discard(client, *whys) == Bulk(found=len(whys), refused=whys)
    with pytest.raises(AlreadyResolved, match="discarded already"):
        client.dead.fix(thrown, Edit(patch={"to": "bob"}), reason="n")
    with pytest.raises(AlreadyResolved, match=f"fixed already, by job {successor}"):
        client.dead.fix(fixed, Edit(patch={"to": "bob"}), reason="n")
    for gone in (replayed, nowhere):
        with pytest.raises(JobNotFound, match="no dead job"):
            client.dead.fix(gone, Edit(patch={"to": "bob"}), reason="n")
        with pytest.raises(JobNotFound):
            client.dead.get(gone)
    assert client.jobs.count().total(JobState.QUEUED) == 2


def test_some_of_many_may_be_refused(client):
    first, second = die(client).id, die(client).id
    discard(client, first)
    assert replay(client, first, second) == Bulk(found=2, done=1, refused={first: "it was discarded already"})
    assert client.dead.replay([], reason="none") == Bulk()


@pytest.mark.parametrize("level", ["off", "ends", "full"])
def test_what_operators_do_is_audited_at_every_level(client, level: AuditLevel):
    # R14, S4-46
    quiet = Client(store=client.store, policies=Policies.of(audit=level))
    again, thrown, fixed = (die(client) for _ in range(3))
    replay(quiet, again.id)
    discard(quiet, thrown.id)
    ada = quiet.at(LATER).acting_as("user:ada")
    successor = ada.dead.fix(fixed.id, Edit(patch={"to": "bob"}), reason="a typo").successor_id
    for job, event, lease, detail in (
        (again, "job.replayed", again.lease + 1, {"reason": "the server is back"}),
        (thrown, "job.discarded", thrown.lease, {"reason": "not needed"}),
        (fixed, "job.fixed", fixed.lease, {"reason": "a typo", "successor_id": successor}),
    ):
        line = client.jobs.events(job.id)[-1]
        assert (line.event, line.at, line.lease, line.detail) == (event, LATER, lease, detail)
        assert (line.actor_type, line.actor_id) == ("user", "ada")
    assert events(client, str(successor)) == (["job.enqueued"] if level == "full" else [])


def test_a_secret_in_a_reason_is_kept_nowhere(client):
    # R25
    died = die(client)
    client.dead.discard([died.id], reason="password=hunter2hunter2")
    assert "hunter2" not in repr([client.dead.get(died.id), client.jobs.events(died.id)])


def test_a_subject_that_is_deleted_takes_what_became_of_its_jobs_along(client):
    # R22
    died = die(client, subject="s:1")
    successor = client.dead.fix(died.id, Edit(patch={"to": "bob"}), reason="n").successor_id
    assert client.jobs.drop_subject("s:1", policy="delete").deleted == {died.id, successor}
    assert rows(client, "SELECT * FROM {prefix}dead_letters") == []


@pytest.mark.parametrize("ids", [5, None, "019a8c42-7d1e-7c3a-9b5e-0f6a2d4c8e10"])
def test_what_is_no_list_of_ids_is_refused(client, ids):
    for resolve in (client.dead.replay, client.dead.discard):
        with pytest.raises(InvalidSetting, match="give a list of job ids"):
            resolve(ids, reason="r")


def test_ids_are_accepted_in_any_usual_form(client):
    first, second = die(client), die(client)
    assert client.dead.replay([UUID(first.id), first.id.upper()], reason="r") == Bulk(found=1, done=1)
    assert client.dead.discard([second.id.replace("-", "")], reason="r") == Bulk(found=1, done=1)
    became = client.dead.get(UUID(second.id)).resolution.resolution
    assert (client.jobs.get(first.id).state, became) == ("queued", "discarded")


def test_no_death_is_resolved_without_a_reason(client):
    died = die(client)
    for resolve in (
        lambda: client.dead.replay([died.id], reason=""),
        lambda: client.dead.discard([died.id], reason=""),
        lambda: client.dead.fix(died.id, Edit(patch={"to": "bob"}), reason=""),
    ):
        with pytest.raises(InvalidJob, match="is empty"):
            resolve()
    assert waiting(client) == [died.id]


async def test_an_async_client_resolves_alike(anyio_backend, tmp_path):
    from onward import AsyncClient

    url = f"sqlite:///{tmp_path}/onward.db"
    with Client(url) as sync:
        sync.at(T).worker.register("w", lease=timedelta(days=3650))
        died = die(sync)
    async with AsyncClient(url) as client:
        assert (await client.dead.replay([died.id], reason="again")).done == 1
        page = await client.dead.list(DeadFilter(resolved="any"))
        assert page.items == []


def test_a_dead_letter_of_an_error_without_words_is_read_all_the_same(client):
    died = die(client, Failed({}, retryable=False))
    letter = client.dead.get(died.id)
    assert isinstance(letter, DeadLetter)
    assert (letter.reason, letter.error_class, letter.hint) == ("unrecoverable", None, None)


def test_a_fix_is_checked_against_the_signature_of_its_job_type(app: Onward):
    @app.job
    def mail(to: str, copies: int = 1) -> None:
        raise Unrecoverable("no such mailbox")

    job_id = mail.enqueue("ada").id
    app.tick()
    for edit in ({"patch": {"copies": "many"}}, {"payload": {"too": "ada"}}, {"patch": {"to": None}}):
        with pytest.raises(InvalidArguments, match="mail"):
            app.client.dead.fix(job_id, Edit(**edit), reason="n")
    assert app.client.dead.get(job_id).resolution is None, "its one resolution is not used up"
    assert app.client.dead.fix(job_id, Edit(patch={"copies": 2}), reason="n").successor_id


def test_what_is_needed_is_not_said_to_be_left_out(client):
    job = die(client)
    with pytest.raises(InvalidJob, match=r"^reason is empty; give some text$"):
        client.dead.fix(job.id, Edit(patch={"to": "bob"}), reason="")
    with pytest.raises(InvalidJob, match=r"^reason is empty; give some text$"):
        client.dead.discard([job.id], reason="")
