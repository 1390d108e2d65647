"""`onward dead`: what it shows, what it asks, what it does, and how it ends."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from onward import Client, Edit, NewJob
from tests.failures.dead.dying import die_of, kill
from tests.work.leases.dying_processes import waiting

WHY = ("--reason", "new key")


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    with Client(f"sqlite:///{folder}/onward.db") as client:
        client.worker.register("w", lease=timedelta(days=3650))
        yield client


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch):
    """Have somebody type this at a terminal; with an empty text there is no terminal."""

    def type_in(text: str) -> None:
        stdin = io.StringIO(text)
        stdin.isatty = lambda: bool(text)  # type: ignore[method-assign]
        monkeypatch.setattr(sys, "stdin", stdin)

    return type_in


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the standard input a terminal, as it is for a person."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())


def now() -> datetime:
    return datetime.now(UTC)


def test_groups_are_listed_for_people_and_for_programs(onward, client):
    for n in range(2):
        die_of(client, f"{n} invalid key", error="AuthError", now=now())
    newest = die_of(client, "no", job_type="letter", now=now())
    ran = onward("dead", "list")
    heading, first, second = ran.out.splitlines()
    assert heading.split() == ["GROUP", "JOB", "TYPE", "ERROR", "JOBS", "LAST"]
    assert first.split()[1:5] == ["letter", "Bounced:", "no", "1"]
    assert "mail" in second
    assert "AuthError: 1 invalid key" in second
    assert second.endswith(" ago")
    shown = json.loads(onward("dead", "list", "--json").out)
    assert [group["count"] for group in shown["items"]] == [1, 2]
    assert (shown["items"][0]["latest"], shown["next_cursor"]) == (newest, None)
    assert second.split()[0] == shown["items"][1]["fingerprint"]
    page = onward("dead", "list", "--limit", "1")
    found = re.fullmatch(r"more: --cursor (\S+)\n", page.err)
    assert found is not None
    assert "mail" in onward("dead", "list", "--cursor", found[1]).out
    assert onward("dead", "list", "--type", "none").err == "no dead letters\n"


def test_the_jobs_of_a_group_are_listed_by_the_beginning_of_its_name(onward, client):
    ids = kill(client, 2)
    die_of(client, "another", now=now())
    kind = client.dead.get(ids[0]).fingerprint
    lines = onward("dead", "list", "--group", kind[:5]).out.splitlines()
    assert [line.split()[0] for line in lines] == ["JOB", *ids[::-1]]
    assert onward("dead", "list", "--group", ids[0]).code == 2
    shown = json.loads(onward("dead", "list", "--jobs", "--json").out)["items"]
    assert len(shown) == 3
    assert shown[1]["job"]["payload"] == {"n": 1}


def test_a_group_and_a_job_are_shown_with_what_helps(onward, client):
    about = {"hint": "renew it", "link": "https://example.com/key", "rule": "http_status", "status": 401}
    job_id = die_of(
        client, "401 invalid", about=about, now=now(), payload={"password_ref": "v:1", "to": "ada"}
    )
    kind = str(client.dead.get(job_id).fingerprint)
    for name in (kind[:6], job_id, job_id.replace("-", "").upper()):
        shown = onward("dead", "show", name).out
        for part in (
            "Bounced: 401 invalid",
            "unrecoverable",
            "http_status",
            "renew it",
            "https://example.com/key",
        ):
            assert part in shown
    assert f"onward dead replay {kind}" in onward("dead", "show", kind).out
    assert json.loads(onward("dead", "show", kind, "--json").out)["status"] == 401
    assert json.loads(onward("dead", "show", job_id, "--json").out)["fingerprint"] == kind
    client.acting_as("user:ada").dead.discard([job_id], reason="seen")
    assert "user:ada: seen" in onward("dead", "show", job_id).out


def test_what_a_message_holds_does_not_control_the_terminal(onward, client):
    job_id = die_of(client, "a\x1b[31mred\x1b]0;title\x07\nline\u202e", now=now(), job_type="mail")
    for command in (
        ("list",),
        ("list", "--jobs"),
        ("show", job_id),
        ("list", "--json"),
        ("show", job_id, "--json"),
    ):
        ran = onward("dead", *command)
        assert ran.code == 0
        assert not {"\x1b", "\x07", "\u202e"} & set(ran.out), command


def test_secrets_of_a_payload_are_not_shown(onward, client):
    from onward.core.policy.policies import Policies

    own = Client(store=client.store, policies=Policies.of(secrets="allow", secrets_reason="a test"))
    job_id = die_of(own, "no", payload={"password": "hunter2hunter2"}, now=now())
    for command in (("show", job_id), ("show", job_id, "--json"), ("list", "--jobs", "--json")):
        assert "hunter2" not in onward("dead", *command).out


def test_a_group_is_replayed_at_a_rate(onward, client):
    # S4-46
    ids = kill(client, 3)
    kind = str(client.dead.get(ids[0]).fingerprint)
    ran = onward("dead", "replay", kind[:6], "--rate", "1/m", "--yes", *WHY)
    assert (ran.code, ran.out) == (0, "3 jobs replayed\n")
    again = onward("dead", "replay", kind[:6], "--yes", *WHY)
    assert "a group that was replayed or discarded is resolved" in again.err
    jobs = [client.jobs.get(job_id) for job_id in ids]
    assert [job.state for job in jobs] == ["queued", "scheduled", "scheduled"]
    assert jobs[2].run_at - jobs[0].run_at == timedelta(minutes=2)
    [became] = client.dead.history(ids[0])
    assert (became.actor_type, became.reason) == ("cli", "new key")
    assert "@" in str(became.actor_id)


def test_one_job_is_replayed_and_a_second_time_it_is_refused(onward, client):
    first, second = kill(client, 2)
    ran = onward("dead", "discard", first, "--yes", "--actor", "user:ada", *WHY)
    assert (ran.code, ran.out) == (0, "1 job discarded\n")
    assert client.dead.history(first)[0].actor_id == "ada"
    again = onward("dead", "replay", first, "--yes", *WHY)
    assert (again.code, again.out) == (4, "0 jobs replayed\n")
    assert re.search(r"it was discarded \d+ ms ago by user:ada$", again.err.strip())
    shown = json.loads(onward("dead", "replay", second, "--yes", "--json", *WHY).out)
    assert (shown["done"], shown["refused"]) == (1, {})


def test_a_job_that_is_not_dead_any_more_is_named_with_what_became_of_it(onward, client):
    [job_id] = kill(client, 1)
    assert onward("dead", "replay", job_id, "--yes", "--actor", "user:ada", *WHY).code == 0
    for command in (
        ("replay", job_id, *WHY),
        ("fix", job_id, "--patch", "{}", "--reason", "n"),
        ("show", job_id),
    ):
        again = onward("dead", *command)
        assert again.code == 4
        assert re.search(
            f"job {job_id} was replayed [0-9.]+ ?m?s ago by user:ada, and is queued now", again.err
        )
    fresh = client.enqueue(NewJob(job_type="t")).id
    never = onward("dead", "replay", fresh, *WHY)
    assert never.code == 3
    assert f"job {fresh} is queued, not dead; onward doctor {fresh} explains it" in never.err


def test_without_a_terminal_a_fix_needs_its_change_as_an_option(onward, client, typed):
    [job_id] = kill(client, 1)
    typed("")
    ran = onward("dead", "fix", job_id, "--reason", "n", "--yes")
    assert ran.code == 2
    assert "no editor can be opened; give --patch or --payload" in ran.err
    assert client.dead.get(job_id).resolution is None


def test_the_count_is_shown_and_asked_about_first(onward, client, typed):
    kill(client, 3)
    typed("n\n")
    ran = onward("dead", "discard", "--all", *WHY)
    assert (ran.code, ran.out) == (1, "")
    assert "Discard 3 jobs?" in ran.err
    assert "nothing was done" in ran.err
    typed("")
    ran = onward("dead", "discard", "--all", *WHY)
    assert (ran.code, len(waiting(client))) == (2, 3)
    assert ran.err == "error: can't ask for confirmation without a terminal; give --yes\n"
    typed("y\n")
    ran = onward("dead", "discard", "--all", "--limit", "2", *WHY)
    assert (ran.code, ran.out, len(waiting(client))) == (0, "2 jobs discarded\n", 1)
    assert "there are more" in ran.err


def test_the_dead_are_chosen_by_subject_and_type(onward, client):
    # S0-60, S0-61
    chosen = die_of(client, "no", subject="booking:42", job_type="invoice", now=now())
    die_of(client, "no", subject="booking:42", now=now())
    narrow = ("--subject", "booking:42", "--type", "invoice")
    assert onward("dead", "replay", *narrow, "--dry-run", *WHY).out == "1 job would be replayed\n"
    assert len(waiting(client)) == 2
    assert onward("dead", "replay", *narrow, "--yes", *WHY).out == "1 job replayed\n"
    assert client.jobs.get(chosen).attempt == 0
    assert onward("dead", "replay", *narrow, "--yes", *WHY).out == "0 jobs replayed\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("replay", *WHY), 2, "no jobs were selected; give a group or a job"),
        (("replay", "0", "--all", *WHY), 2, "a group or job and --all were both given"),
        (("replay", "ffff", *WHY), 3, "begins with 'ffff'"),
        (("show", "what"), 3, "begins with 'what'"),
        (("replay", "--all", "--yes"), 2, "--reason"),
        (("replay", "--all", "--yes", "--rate", "fast", *WHY), 2, "rate is 'fast'"),
        (("list", "--limit", "0"), 2, "limit"),
    ],
)
def test_what_can_not_be_done_is_told_and_ends_with_its_code(onward, client, arguments, code, message):
    kill(client, 1)
    ran = onward("dead", *arguments)
    assert ran.code == code
    assert message in ran.err
    assert len(waiting(client)) == 1


def test_a_name_that_begins_more_than_one_is_refused(onward, client):
    kill(client, 2)
    ran = onward("dead", "show", waiting(client)[0][:3])
    assert ran.code == 2
    assert "is the beginning of several" in ran.err


def test_a_job_is_fixed_by_a_patch_whose_diff_is_shown(onward, client, typed):
    # R8, S4-46
    job_id = die_of(client, "no", now=now())
    typed("y\n")
    ran = onward("dead", "fix", job_id, "--patch", '{"to": "bob"}', "--reason", "a typo")
    assert ran.code == 0
    assert '$.to: "ada" → "bob"' in ran.err
    successor = client.dead.get(job_id).successor_id
    assert ran.out == f"1 job fixed → {successor}\n"
    assert client.jobs.get(successor).payload == {"to": "bob"}
    again = onward("dead", "fix", job_id, "--patch", '{"to": "eve"}', "--reason", "n", "--yes")
    assert again.code == 4


@pytest.mark.usefixtures("terminal")
def test_without_a_patch_the_payload_is_edited(onward, client, monkeypatch, folder):
    job_id = die_of(client, "no", now=now())
    editor = folder / "editor.py"
    editor.write_text(
        "import sys; p = sys.argv[1]; t = open(p).read(); open(p, 'w').write(t.replace('ada', 'bob'))"
    )
    monkeypatch.setenv("VISUAL", "")
    monkeypatch.setenv("EDITOR", f"{sys.executable} {editor}")
    ran = onward("dead", "fix", job_id, "--reason", "a typo", "--yes")
    assert ran.code == 0, ran.err
    assert client.jobs.get(client.dead.get(job_id).successor_id).payload == {"to": "bob"}


def test_a_group_is_fixed_by_one_patch(onward, client):
    ids = kill(client, 3)
    kind = str(client.dead.get(ids[0]).fingerprint)
    ran = onward("dead", "fix", kind, "--patch", '{"to": "bob"}', "--reason", "n", "--yes")
    assert (ran.code, ran.out) == (0, "3 jobs fixed\n")
    assert waiting(client) == []
    other = str(client.dead.get(die_of(client, "other", now=now(), priority=1)).fingerprint)
    for wrong in (("--payload", "{}"), ()):
        assert onward("dead", "fix", other, *wrong, "--reason", "n", "--yes").code == 2
    refused = onward("dead", "fix", other, "--patch", '{"to": "ada"}', "--reason", "n", "--yes")
    assert (refused.code, refused.out) == (4, "0 jobs fixed\n")


def test_what_is_no_json_is_blamed_on_where_it_came_from(onward, client):
    job_id = die_of(client, "no", now=now())
    for option in ("--patch", "--payload"):
        ran = onward("dead", "fix", job_id, option, '{"what":', "--reason", "n")
        assert ran.code == 2
        assert f"{option} is not JSON" in ran.err


def test_a_traceback_keeps_its_indentation(onward, client):
    trace = 'Traceback (most recent call last):\n  File "app.py", line 1\n    \x1b[31msend()\nOSError: no\n'
    job_id = die_of(client, "no", about={"traceback": trace}, now=now())
    assert onward("dead", "show", job_id).out.splitlines()[-4:] == [
        "    Traceback (most recent call last):",
        '      File "app.py", line 1',
        "        send()",
        "    OSError: no",
    ]


def test_a_job_that_was_fixed_is_shown_with_what_was_changed(onward, client):
    job_id = die_of(client, "no", now=now())
    client.dead.fix(job_id, Edit(patch={"to": "bob"}), reason="a typo")
    assert '    $.to: "ada" → "bob"' in onward("dead", "show", job_id).out.splitlines()


def test_the_copy_of_the_only_job_of_a_group_is_named(onward, client):
    job_id = die_of(client, "no", now=now())
    kind = str(client.dead.get(job_id).fingerprint)
    ran = onward("dead", "fix", kind, "--patch", '{"to": "bob"}', "--reason", "n", "--yes")
    assert ran.out == f"1 job fixed → {client.dead.get(job_id).successor_id}\n"


def test_a_group_that_is_resolved_is_told_as_such(onward, client):
    job_id = die_of(client, "no", now=now())
    kind = str(client.dead.get(job_id).fingerprint)
    client.dead.discard([job_id], reason="seen")
    ran = onward("dead", "show", kind)
    assert ran.code == 3
    assert f"all of group {kind} is resolved; onward dead show {job_id}" in ran.err


@pytest.mark.usefixtures("terminal")
def test_what_changes_nothing_is_refused_by_the_same_code(onward, client, monkeypatch, folder):
    job_id = die_of(client, "no", now=now())
    patched = onward("dead", "fix", job_id, "--patch", '{"to": "ada"}', "--reason", "n", "--yes")
    (folder / "editor.py").write_text("")
    monkeypatch.setenv("VISUAL", "")
    monkeypatch.setenv("EDITOR", f"{sys.executable} {folder / 'editor.py'}")
    edited = onward("dead", "fix", job_id, "--reason", "n", "--yes")
    for ran in (patched, edited):
        assert (ran.code, ran.out) == (4, "")
        assert "refused: " in ran.err
    assert len(waiting(client)) == 1
