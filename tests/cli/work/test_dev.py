"""`onward dev`: a worker with the code as it is now."""

import signal

import pytest

from onward import Client, NewJob
from onward.cli.work.dev import source_stamps
from tests.cli.program import Program

APP = """
from onward import Onward

app = Onward()

@app.job
def greet(name: str) -> str:
    return f"hello {name}"
"""


def test_it_makes_its_database_runs_jobs_and_starts_again_with_changed_code(folder):
    (folder / "app.py").write_text(APP)
    with Program(folder, "dev", "app:app") as dev, Client() as client:
        assert "dev mode · reloads on change · Ctrl-C stops" in dev.wait_for("onward ")
        assert dev.wait_for("database") == "  database   sqlite ./onward.db (created, schema 1)"
        dev.wait_for("jobs       1 found: greet (q:default)")
        dev.wait_for("ready in ")
        first = client.enqueue(NewJob(job_type="greet", payload={"name": "ada"})).id
        dev.wait_for(f"✓ greet {first} attempt 1/5")

        (folder / "app.py").write_text(APP.replace("hello", "good day"))
        dev.wait_for("changed: app.py; starting again")
        dev.wait_for("ready in ")
        second = client.enqueue(NewJob(job_type="greet", payload={"name": "ada"})).id
        dev.wait_for(f"✓ greet {second}")
        assert [client.jobs.get(job_id).result for job_id in (first, second)] == ["hello ada", "good day ada"]

        dev.send(signal.SIGINT)
        assert dev.end() == 0
    assert "Traceback" not in dev.output
    assert dev.output.count("dev mode") == 1


def test_a_failed_attempt_is_shown_once_with_its_traceback(folder):
    (folder / "app.py").write_text(
        APP
        + """
@app.job(max_attempts=2)
def fails() -> None:
    raise LookupError("nobody home")
"""
    )
    with Program(folder, "dev", "app:app") as dev, Client() as client:
        dev.wait_for("ready in ")
        job_id = client.enqueue(NewJob(job_type="fails", max_attempts=2)).id
        dev.wait_for(f"✗ fails {job_id} attempt 1/2 LookupError: nobody home → retryable, next try in ")
        dev.wait_for("Traceback (most recent call last):")
        assert "in fails" in dev.wait_for("app.py")
        dev.send(signal.SIGINT)
        assert dev.end() == 0
    assert dev.output.count(f"fails {job_id}") == 1


def test_code_that_can_not_be_imported_is_told_and_waited_for(folder):
    (folder / "app.py").write_text("from onward import Onward\napp = Onwart()\n")
    with Program(folder, "dev", "app:app") as dev:
        dev.wait_for('app.py", line 2, in <module>')
        dev.wait_for('error ON-SET-001: importing "app" failed: NameError: ')
        dev.wait_for("exit code 2; it starts again when a file changes")
        (folder / "app.py").write_text(APP)
        dev.wait_for("ready in ")
        dev.send(signal.SIGTERM)
        assert dev.end() == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nosuch:app", 'there is no module "nosuch" in '),
        ("app.nosuch:app", 'there is no module "app.nosuch" in '),
        ("app.py", '"app.py" is not module:attribute; give one such as app:app'),
    ],
)
def test_a_module_that_is_not_there_is_told_and_not_waited_for(onward, folder, name, said):
    (folder / "app.py").write_text(APP)
    ran = onward("dev", name)
    assert ran.code == 2
    assert said in ran.err


def test_only_sources_of_the_project_are_watched(folder):
    for name in ("a.py", "deep/b.py", ".hidden/c.py", "venv/lib/d.py", "__pycache__/e.py", "notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / "venv" / "pyvenv.cfg").touch()
    assert set(source_stamps(folder)) == {str(folder / "a.py"), str(folder / "deep/b.py")}
