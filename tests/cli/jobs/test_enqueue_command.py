"""`onward enqueue` and `onward tick`: from words to a job, and from a job to its result."""

import json
import re
import signal
from datetime import UTC, datetime, timedelta

import pytest

from onward import Client, JobState
from onward.cli.times import read_instant, read_length
from onward.cli.work.worker import parse_queues, parse_types
from onward.errors import InvalidSetting
from onward.results import Job
from tests.cli.program import Program

APP = """
from onward import Context, Onward

app = Onward("sqlite:///jobs.db")

@app.job(category="notification", deadline="1h")
async def send_confirmation(ctx: Context, booking_id: int, to: str) -> dict:
    return {"sent": True, "to": to}

@app.job(max_attempts=1)
def fails() -> None:
    raise ValueError("bad card")
"""


@pytest.fixture
def app(folder):
    (folder / "app.py").write_text(APP)


def stored() -> Job:
    with Client("sqlite:///jobs.db") as client:
        [job] = client.jobs.list().items
        return job


def test_words_are_converted_by_the_signature_and_the_id_is_printed(onward, app):
    ran = onward("enqueue", "send_confirmation", "booking_id=42", "to=42")
    job = stored()
    assert (ran.code, ran.out, ran.err) == (0, f"{job.id}  queued\n", "")
    assert job.payload == {"booking_id": 42, "to": "42"}
    assert (job.queue, job.max_attempts) == ("q:notifications", 10)
    assert job.deadline is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--unique", "7d"), "--unique says how long a key holds, but the job has none; give --key too"),
        (("--unique", "7x"), "--unique is '7x'; give a length of time such as 90s, 10m, 1h30m or 7d"),
        (
            ("--delay=-5s",),
            "--delay is '-5s'; give a length of time such as 90s, 10m, 1h30m or 7d; it can't be",
        ),
        (("--actor", "ada"), "'ada' names no actor; give type:id, such as user:42"),
    ],
)
def test_a_wrong_option_is_explained_in_the_words_of_the_command_line(onward, app, options, message):
    ran = onward("enqueue", "fails", *options)
    assert ran.code == 2
    assert message in ran.err
    assert "timedelta" not in ran.err
    with Client("sqlite:///jobs.db") as client:
        client.migrate()
        assert not client.jobs.list()


def test_a_key_of_the_job_type_is_held_as_long_as_the_option_says(onward, folder):
    keyed = "@app.job(key='only:{n}')\ndef keyed(n: int) -> None: ...\n"
    (folder / "app.py").write_text(f"{APP}\n{keyed}")
    assert onward("enqueue", "keyed", "n=1", "--unique", "7d").code == 0
    assert stored().key == "only:1"


def test_a_job_type_that_no_running_worker_knows_is_noted_where_there_is_no_app(onward, folder):
    with Client() as client:
        client.migrate()
        assert "note" not in onward("enqueue", "send").err, "no worker runs yet"
        client.worker.register("w1", lease="1h", info={"job_types": ["send", "tidy"]})
        ran = onward("enqueue", "sned")
        assert ran.code == 0
        note = 'note: no worker that runs now knows the job type "sned"; did you mean "send"?'
        assert ran.err.splitlines()[-1] == note
        assert "note" not in onward("enqueue", "send").err


def test_an_app_that_asks_for_it_is_told_who_enqueues(onward, folder):  # S4-21
    strict = 'Onward("sqlite:///jobs.db", tenancy="required", contract="required")'
    (folder / "app.py").write_text(APP.replace('Onward("sqlite:///jobs.db")', strict))
    ran = onward("enqueue", "fails")
    assert (ran.code, "error ON-JOB-005: org_id is missing" in ran.err) == (2, True)
    assert onward("enqueue", "fails", "--org", "acme").code == 0
    job = stored()
    assert (job.org_id, job.actor_type, job.key is None) == ("acme", "user", False)
    assert "@" in str(job.actor_id)
    assert job.request_id == job.correlation_id
    own = ("--project", "p", "--actor", "api_key:k", "--request-id", "r")
    ran = onward("enqueue", "fails", "--org", "acme", *own, "--json")
    with Client("sqlite:///jobs.db") as client:
        job = client.jobs.get(json.loads(ran.out)["id"])
    assert (job.project_id, job.actor_type, job.actor_id, job.request_id) == ("p", "api_key", "k", "r")


def test_an_app_that_is_made_elsewhere_is_asked_for_instead_of_a_new_database(onward, folder):
    (folder / "jobs.py").write_text(APP)
    (folder / "app.py").write_text("from jobs import app\n")
    ran = onward("enqueue", "fails")
    assert ran.code == 2
    assert "no Onward() is made in app.py, and no database was named; name the app with --app" in ran.err
    assert not list(folder.glob("*.db"))
    assert onward("enqueue", "fails", "--app", "app:app").code == 0
    assert stored().job_type == "fails"
    assert onward("enqueue", "fails", "--url", "sqlite:///other.db").code == 0
    assert (folder / "other.db").exists()


def test_a_misspelt_argument_is_refused_with_the_signature(onward, app):
    ran = onward("enqueue", "send_confirmation", "bookin_id=42")
    assert ran.code == 2
    assert ran.err == (
        'error ON-ARG-001: send_confirmation() has no argument "bookin_id". Did you mean "booking_id"?\n'
        "  signature: send_confirmation(booking_id: int, to: str)\n"
    )


def test_a_misspelt_job_type_is_told_its_nearest_neighbour(onward, app):
    ran = onward("enqueue", "send_confirmatoin")
    assert ran.code == 2
    assert 'the app has no job type "send_confirmatoin". Did you mean "send_confirmation"?' in ran.err


def test_options_reach_the_job(onward, app):
    arguments = [
        "--payload",
        '{"booking_id": 1, "to": "a"}',
        "--priority",
        "1",
        "--queue",
        "q:x",
        "--org",
        "acme",
    ]
    options = ["--key", "k", "--unique", "active", "--max-attempts", "7", "--delay", "30m", "--json"]
    ran = onward("enqueue", "send_confirmation", *arguments, *options)
    job = stored()
    assert json.loads(ran.out) == {"id": job.id, "state": "scheduled", "created": True, "change": None}
    assert (job.priority, job.queue, job.org_id, job.key, job.max_attempts) == (1, "q:x", "acme", "k", 7)
    assert timedelta(minutes=29) < job.run_at - datetime.now(UTC) <= timedelta(minutes=30)

    again = onward("enqueue", "send_confirmation", *arguments, *options[:4])
    assert again.out == f"{job.id}  scheduled   (it holds the key already)\n"
    refused = onward("enqueue", "send_confirmation", *arguments, *options[:4], "--on-conflict", "raise")
    assert refused.code == 4
    assert refused.err.startswith("error ON-KEY-001: ")


def test_without_an_app_a_job_is_enqueued_by_name_with_a_note(onward, folder):
    ran = onward(
        "enqueue", "anything", "n=1", "s=x", "--url", "sqlite:///jobs.db", "--at", "2040-01-01T00:00Z"
    )
    assert (ran.code, ran.err.count("\n")) == (0, 2)
    assert "the arguments are not checked" in ran.err
    assert "the job goes to sqlite ./jobs.db (created, schema " in ran.err
    job = stored()
    assert (job.job_type, job.payload) == ("anything", {"n": 1, "s": "x"})
    assert job.run_at == datetime(2040, 1, 1, tzinfo=UTC)


def test_waiting_tells_how_it_went_and_prints_the_result(onward, app, folder):
    with Program(folder, "worker", "app:app") as worker:
        worker.wait_for("  worker ")
        ran = onward("enqueue", "send_confirmation", "booking_id=42", "to=ada", "--wait")
        dead = onward("enqueue", "fails", "--wait")
        shown = onward("enqueue", "fails", "--wait", "--json")
    assert (ran.code, json.loads(ran.out)) == (0, {"sent": True, "to": "ada"})
    assert re.fullmatch(
        r"\S{36}  queued\n\S{36}  queued → running → succeeded   attempt 1/10   [\d.]+ ?m?s\n", ran.err
    )
    assert (dead.code, dead.out) == (6, "")
    assert "queued → running → dead   attempt 1/1 " in dead.err
    assert dead.err.endswith("  ValueError: bad card: attempts_exhausted\n")
    assert shown.code == 6
    assert json.loads(shown.out)["error"]["error_class"] == "ValueError"


def test_waiting_has_an_end(onward, app):
    ran = onward("enqueue", "fails", "--wait", "--timeout", "0.05")
    assert ran.code == 1
    assert ran.err.splitlines()[1].startswith("error ON-JOB-003: ")
    assert stored().state == JobState.QUEUED


@pytest.mark.parametrize(
    "arguments",
    [["x=1", "--payload", "{}"], ["--timeout", "5"], ["--delay", "soon"], ["--at", "noon"], ["word"]],
)
def test_arguments_that_make_no_sense_are_refused(onward, app, arguments):
    ran = onward("enqueue", "fails", *arguments)
    assert ran.code == 2
    assert ran.err.startswith("error ON-SET-001: ")


def test_a_tick_runs_what_is_due_and_tells_it_as_one_document(onward, app):  # R16, S0-46
    onward("enqueue", "send_confirmation", "booking_id=1", "to=a")
    onward("enqueue", "fails")
    onward("enqueue", "fails", "--delay", "1h")
    ran = onward("tick", "app:app", "--json")
    told = json.loads(ran.out)
    assert (told.pop("durationMs") >= 0, told.pop("asOfUtc")[-1]) == (True, "Z")
    assert told == {
        "ok": True, "processed": 2, "succeeded": 1, "retried": 0, "dead": 1, "remainingPending": 1,
    }  # fmt: skip
    assert onward("tick", "app:app").err.startswith(
        "0 processed: 0 succeeded, 0 to try again, 0 dead; 1 waiting; "
    )


def test_a_tick_finds_the_app_of_the_folder(onward, app):
    assert onward("tick").err.startswith("0 processed: ")


@pytest.mark.parametrize("command", ["worker", "dev", "tick"])
def test_where_there_is_no_app_a_name_is_asked_for(onward, folder, command):
    ran = onward(command)
    assert ran.code == 2
    assert "name one as module:attribute, such as app:app" in ran.err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "queues"),
    [
        ([], None),
        (["q:critical=4,q:default=16"], {"q:critical": 4, "q:default": 16}),
        (["q:a", "q:b=2"], {"q:a": None, "q:b": 2}),
    ],
)
def test_queues_are_read_with_their_numbers(given, queues):
    assert parse_queues(given) == queues


@pytest.mark.parametrize("text", ["", "q:a,", "=4", "q:a=", "q:a=0", "q:a=-1", "q:a=x", "q:a,q:a=2"])
def test_queues_that_make_no_sense_are_refused(text):
    with pytest.raises(InvalidSetting, match="-q "):
        parse_queues([text])


def test_times_are_read_as_people_write_them():
    assert read_length("--grace", "30") == timedelta(seconds=30)
    assert read_length("--grace", "0.5") == timedelta(seconds=0.5)
    assert read_length("--grace", "1h30m") == timedelta(minutes=90)
    assert read_instant("--at", "2026-01-31T18:00+01:00") == datetime(2026, 1, 31, 17, tzinfo=UTC)
    assert read_instant("--at", "2026-01-31").tzinfo is not None


def test_job_types_are_read_from_a_list():  # R13, S1-15
    assert parse_types([]) is None
    assert parse_types(["mail.send, report", "clean"]) == ["mail.send", "report", "clean"]
    with pytest.raises(InvalidSetting, match=r"--types 'mail,': give job types"):
        parse_types(["mail,"])


def test_an_app_in_the_place_of_the_job_is_told_where_it_goes(onward, app):
    ran = onward("enqueue", "app:app", "fails")
    assert ran.code == 2
    assert '"app:app" looks like an app: onward enqueue fails --app app:app' in ran.err


def test_a_wait_prints_the_id_at_once_and_an_interrupt_leaves_the_job(folder, app):
    with Program(folder, "enqueue", "fails", "--wait") as waiting:
        line = waiting.wait_for("queued")
        job = stored()
        assert line == f"{job.id}  queued"
        waiting.send(signal.SIGINT)
        assert waiting.end() == 130
    assert f"job {job.id} stays in the queue" in waiting.output
    assert stored().state == JobState.QUEUED
