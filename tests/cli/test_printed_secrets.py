"""The command line shows no secrets, and nothing that controls the terminal."""

from __future__ import annotations

import json

import pytest

from onward import Client
from tests.cli.program import Program

APP = """
import logging
from onward import Context, Onward, Unrecoverable

app = Onward("sqlite:///jobs.db", secrets="allow", secrets_reason="to see what becomes of them")

@app.job
async def spills(ctx: Context, password: str) -> None:
    ctx.log.warning("with %s", password)
    logging.getLogger("mine").warning("password=%s", password)
    try:
        raise ValueError(f"token={password}")
    except ValueError:
        logging.getLogger("mine").exception("again")
        ctx.log.exception("once more")
    raise Unrecoverable(f"not {password}", hint=password)

@app.job
async def returns(password: str) -> dict:
    return {"token": password, "said": f"it was {password}", "name": "\\x9b31m\\u202eada\\x7f"}
"""
SECRET = "hunter2-hunter2"


@pytest.fixture
def jobs(folder):
    """A client on the database of the app, which lies in the current folder."""
    (folder / "app.py").write_text(APP)
    with Client("sqlite:///jobs.db") as client:
        client.migrate()
        yield client


@pytest.mark.parametrize("level", ["info", "debug"])
def test_a_worker_prints_no_secret(folder, jobs, level):  # S4-56, I11, A20
    with Program(folder, "enqueue", "spills", f"password={SECRET}", "--app", "app:app") as asked:
        assert asked.end() == 0
    with Program(folder, "worker", "app:app", "--drain", "--log-level", level) as worker:
        assert worker.end() == 6
    assert "hunter2" not in asked.output + worker.output
    job_id = asked.lines[-1].partition(" ")[0]
    assert f"onward.job: spills {job_id}: with [redacted]" in worker.output
    assert f"mine: spills {job_id}: password=[redacted]" in worker.output
    assert "Unrecoverable: not [redacted]" in worker.output
    assert f"mine: spills {job_id}: again\n    Traceback" in worker.output
    assert worker.output.count("    ValueError: token=[redacted]") >= 2


@pytest.mark.parametrize("as_json", [True, False])
def test_a_result_is_shown_without_its_secrets_and_without_control_characters(folder, jobs, as_json):  # A23
    flags = ["--json"] if as_json else []
    with Program(folder, "worker", "app:app") as worker:
        worker.wait_for("  worker ")
        options = ["--wait", "--timeout", "20s", *flags]
        with Program(folder, "enqueue", "returns", f"password={SECRET}", "--app", "app", *options) as asked:
            assert asked.end() == 0
    assert "hunter2" not in asked.output
    assert not {"\x9b", "\u202e", "\x7f"} & set(asked.output)
    shown = json.loads(asked.lines[-1])
    result = shown["result"] if as_json else shown
    name = "\x9b31m\u202eada\x7f"
    assert result == {"token": "[redacted]", "said": "it was [redacted]", "name": name}
    [job] = jobs.jobs.list().items
    assert job.result["token"] == SECRET, "it is stored as it was returned"


def test_a_refused_secret_is_told_by_its_path_only(folder, jobs):
    payload = json.dumps({"auth": {"password": SECRET}})
    options = ["--payload", payload, "--url", "sqlite:///jobs.db"]
    (folder / "app.py").unlink()
    with Program(folder, "enqueue", "anything", *options) as asked:
        assert asked.end() == 2
    assert "error ON-PAY-003: payload at $.auth.password holds a secret" in asked.output
    assert "hunter2" not in asked.output
