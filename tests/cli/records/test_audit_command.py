"""`onward audit`: lists, exports and verifies."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from onward import Client, NewJob
from tests.records.audit.audit_history import finished


@pytest.fixture
def lines(folder) -> int:
    """A database with some history; gives how many lines its audit has."""
    with Client(f"sqlite:///{folder}/onward.db") as client:
        finished(client)
        client.enqueue(NewJob(job_type="other", org_id="globex", actor_type="user", actor_id="ada"))
        return len(list(client.audit.export()))


def test_the_audit_is_listed_for_people_and_for_programs(onward, lines):
    ran = onward("audit", "list", "--limit", "2")
    assert ran.code == 0
    newest, _ = ran.out.splitlines()
    assert "job.enqueued  other " in newest
    assert "user:ada" in newest
    cursor = ran.err.removeprefix("more: --cursor ").strip()
    rest = onward("audit", "list", "--limit", "1000", "--cursor", cursor)
    assert (len(rest.out.splitlines()), rest.err) == (lines - 2, "")
    page = json.loads(onward("audit", "list", "--json", "--oldest", "--event", "job.skipped").out)
    [record] = page["items"]
    assert (record["event"], record["org_id"], page["next_cursor"]) == ("job.skipped", "acme", None)
    assert record["detail"] == {"reason": "nothing to do"}


def test_the_audit_is_exported_as_json_lines_oldest_first(onward, lines):
    records = [json.loads(line) for line in onward("audit", "export").out.splitlines()]
    assert [record["seq"] for record in records] == list(range(1, lines + 1))
    assert records[0]["at"].endswith("Z")
    for narrow in (("--org", "globex"), ("--actor", "user:ada"), ("--job", records[-1]["job_id"])):
        assert [json.loads(line) for line in onward("audit", "export", *narrow).out.splitlines()] == records[
            -1:
        ]
    assert onward("audit", "export", "--since", "2099-01-01T00:00+00:00").out == ""
    assert len(onward("audit", "export", "--until", "2099-01-01T00:00+00:00").out.splitlines()) == lines
    assert onward("audit", "export", "--since", "tomorrow").code == 2


def test_a_job_is_named_by_the_beginning_of_its_id(onward, lines):
    [newest] = json.loads(onward("audit", "list", "--limit", "1", "--json").out)["items"]
    job_id = newest["job_id"]
    ids = {json.loads(line)["job_id"] for line in onward("audit", "export").out.splitlines()}
    length = next(n for n in range(1, 36) if sum(str(one).startswith(job_id[:n]) for one in ids) == 1)
    ran = onward("audit", "list", "--job", job_id[:length], "--json")
    assert [record["job_id"] for record in json.loads(ran.out)["items"]] == [job_id]
    missing = onward("audit", "list", "--job", "ffff")
    assert (missing.code, "no job begins with 'ffff'" in missing.err) == (3, True)


def test_an_intact_audit_ends_with_0_and_prints_its_head(onward, lines):
    ran = onward("audit", "verify")
    assert (ran.code, ran.err) == (0, f"intact: {lines} links\n")
    head = ran.out.strip()
    assert head.startswith(f"{lines}:")
    assert onward("audit", "verify", "--head", head).code == 0
    wrong = onward("audit", "verify", "--json", "--head", f"{lines}:{'0' * 64}")
    assert wrong.code == 1
    shown = json.loads(wrong.out)
    assert (shown["intact"], shown["head"], shown["faults"][0]["what"]) == (False, head, "broken")
    assert onward("audit", "verify", "--head", "what").code == 2


def test_an_edited_audit_ends_with_1_and_names_the_row(onward, lines, folder):
    assert onward("audit", "verify").code == 0
    with closing(sqlite3.connect(folder / "onward.db")) as connection:
        connection.execute("DROP TRIGGER onward_audit_is_not_updated")
        connection.execute("UPDATE onward_audit SET actor_id = 'somebody else' WHERE seq = 3")
        connection.commit()
    ran = onward("audit", "verify")
    assert ran.code == 1
    assert ran.err.splitlines()[0] == "edited seq 3: the row is not the one that was sealed"
    assert f"NOT intact: {lines} links" in ran.err
