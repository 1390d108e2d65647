"""Groups of dead letters, and what narrows a listing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any, cast

import msgspec
import psycopg
import pytest

from onward import Client, DeadFilter, InvalidJob, InvalidSetting, JobFilter
from onward.core.failures.fingerprint import fingerprint
from onward.core.work.error_record import ErrorRecord
from onward.operations.failures import dead_groups
from onward.operations.statement import Statement
from onward.sql.catalogue import catalogue
from tests.failures.dead.dying import SECOND, die_of, kill
from tests.jobs.inspect.reading import rows
from tests.stores.postgres.postgres_schema import fresh_schema
from tests.work.leases.dying_processes import T, discard, replay, waiting


def test_what_died_of_the_same_is_one_group(client):
    # R8, S4-44
    about = {"hint": "ask her", "link": "https://example.com/mail", "rule": "pattern", "status": 550}
    first = die_of(client, "no mailbox 1", org_id="o", about=about)
    second = die_of(client, "no mailbox 2", org_id="p", about=about, now=T + SECOND)
    other = die_of(client, "no mailbox 3", job_type="letter", error="Lost", now=T + 2 * SECOND)
    newest, older = client.dead.groups().items
    assert (newest.job_type, newest.error_class, newest.count, newest.orgs) == ("letter", "Lost", 1, 0)
    assert newest.latest == other
    alike = ErrorRecord("Bounced", "no mailbox 7", status=550)
    assert older.fingerprint == fingerprint("mail", alike)
    assert (older.count, older.capped, older.orgs, older.latest) == (2, False, 2, second)
    assert (older.message, older.pattern) == ("no mailbox 2", "no mailbox <n>")
    assert (older.first_at, older.last_at) == (T, T + SECOND)
    assert (older.hint, older.link, older.rule, older.status, older.reason) == (
        *about.values(),
        "unrecoverable",
    )
    letter = client.dead.get(first)
    assert (letter.fingerprint, letter.rule, letter.status) == (older.fingerprint, "pattern", 550)


def test_only_what_waits_for_somebody_is_in_a_group(client):
    ids = [die_of(client, f"no mailbox {n}") for n in range(3)]
    discard(client, ids[2])
    [group] = client.dead.groups().items
    assert (group.count, group.latest) == (2, ids[1])
    replay(client, *ids[:2])
    assert client.dead.groups().items == []


def test_groups_come_page_by_page_and_can_be_narrowed(client):
    for word in ("one", "two", "three"):
        die_of(client, word, job_type=f"t-{word}", org_id=f"o-{word}", error=f"E-{word}")
    page = client.dead.groups(limit=2)
    assert [group.message for group in page] == ["three", "two"]
    rest = client.dead.groups(limit=2, cursor=page.next_cursor)
    assert ([group.message for group in rest], rest.next_cursor) == (["one"], None)
    for where in (DeadFilter(job_type="t-two"), DeadFilter(org_id="o-two"), DeadFilter(error_class="E-two")):
        assert [group.message for group in client.dead.groups(where)] == ["two"]
    kind = rest[0].fingerprint
    for beginning in (kind, kind[:6]):
        assert [group.message for group in client.dead.groups(DeadFilter(group=beginning)).items] == ["one"]
    assert client.dead.groups(DeadFilter(job_type="t-two", error_class="E-one")).items == []


def test_a_group_is_counted_up_to_a_cap_by_its_newest(client, monkeypatch):
    monkeypatch.setattr(dead_groups, "MOST_COUNTED", 2)
    for n in range(4):
        die_of(client, "the same", now=T + n * SECOND)
    [group] = client.dead.groups().items
    assert (group.count, group.capped) == (2, True)
    assert (group.first_at, group.last_at) == (T + SECOND, T + 3 * SECOND)


def test_those_without_a_fingerprint_are_one_group(client):
    ids = [die_of(client, word) for word in ("one", "two")]
    if client.store.database == "sqlite":
        strip = "UPDATE {prefix}ended SET error = json_remove(error, '$.fingerprint')"
    else:
        strip = "UPDATE {prefix}ended SET error = error - 'fingerprint'"
    rows(client, strip)
    [group] = client.dead.groups().items
    assert (group.fingerprint, group.count) == ("unknown", 2)
    assert waiting(client, group="unknown") == ids[::-1]
    assert client.dead.get(ids[0]).fingerprint is None


def test_an_error_that_somebody_spoilt_keeps_no_job_from_dying(tmp_path):
    with Client(f"sqlite:///{tmp_path}/onward.db") as client:
        client.at(T).worker.register("w")
        die_of(client, "one")
        rows(client, "UPDATE {prefix}ended SET error = 'no json'")
        assert rows(client, "SELECT count(*) FROM {prefix}ended WHERE state = 'dead'") == [(1,)]


def test_a_listing_is_narrowed_by_group_subject_and_class(client):
    # S0-60
    first = die_of(client, "no row 1", subject="s:1")
    second = die_of(client, "no row 2", subject="s:2", error="Other")
    third = die_of(client, "no row 3", subject="s:1", job_type="letter")
    kind = client.dead.get(first).fingerprint
    assert waiting(client, group=kind) == [first]
    assert waiting(client, subject="s:1") == [third, first]
    assert waiting(client, subject="s:1", job_type="mail") == [first]
    assert waiting(client, error_class="Other") == [second]
    assert waiting(client, group=kind, subject="s:2") == []
    discard(client, first)
    assert waiting(client, group=kind) == []
    assert waiting(client, group=kind, resolved="yes") == [first]
    # R8, S4-43: and in every other listing, too.
    assert [job.id for job in client.jobs.list(JobFilter(queue="q:deadletter", subject="s:1")).items] == [
        third
    ]


def test_a_filter_that_is_not_known_is_refused_since_all_would_be_meant(client):
    die_of(client, "one")
    dead, why = client.dead, {"reason": "r"}
    for call, more in (
        (dead.list, {}),
        (dead.groups, {}),
        (dead.replay_where, why),
        (dead.discard_where, why),
    ):
        with pytest.raises(InvalidSetting, match="give a DeadFilter"):
            call({"job_type": "t"}, **more)
    for call, more in ((dead.groups, {}), (dead.replay_where, why), (dead.discard_where, why)):
        for resolved in ("yes", "any"):
            with pytest.raises(InvalidSetting, match="unresolved dead letters"):
                call(DeadFilter(resolved=resolved), **more)
    with pytest.raises(TypeError, match="job_typ"):
        DeadFilter(**cast("Any", {"job_typ": "t"}))
    with pytest.raises(msgspec.ValidationError, match="unknown field `job_typ`"):
        msgspec.json.decode(b'{"job_typ": "t"}', type=DeadFilter)
    with pytest.raises(InvalidSetting, match="resolved is 'maybe'"):
        dead.list(DeadFilter(resolved=cast("Any", "maybe")))
    with pytest.raises(InvalidSetting, match="narrowed by subject"):
        client.dead.groups(DeadFilter(subject="s"))
    with pytest.raises(InvalidSetting, match="fingerprint"):
        client.dead.groups(DeadFilter(group="A%"))
    with pytest.raises(InvalidJob, match="group"):
        client.dead.list(DeadFilter(group=cast("str", 7)))
    assert len(waiting(client)) == 1


def test_dead_jobs_are_found_by_how_their_ids_begin(client):
    ids = kill(client, 3)

    def find(beginning: str) -> list[str]:
        return [job.id for job in client.jobs.list(JobFilter(id=beginning, state="dead"))]

    assert find(ids[0]) == [ids[0]]
    assert find(ids[0][:4].upper()) == ids[::-1]
    assert find("ffffffff") == []
    with pytest.raises(InvalidJob, match="beginning of a job id"):
        find("mail")


PLANS = {
    "list_dead_of_group": "ended_dead_group",
    "pick_dead_of_group": "ended_dead_group",
    "list_dead_of_subject": "ended_subject",
    "pick_dead_of_subject": "ended_subject",
    "list_dead_groups": "ended_dead_group",
}


@pytest.mark.parametrize("name", PLANS)
def test_on_sqlite_a_group_and_a_subject_are_found_by_their_index(tmp_path, name):
    with Client(f"sqlite:///{tmp_path}/onward.db") as client:
        client.migrate()
        [step] = catalogue("sqlite", "question", "onward_")[name].steps
        with closing(sqlite3.connect(tmp_path / "onward.db")) as connection:
            plan = connection.execute(f"EXPLAIN QUERY PLAN {step.text}", [None] * len(step.names)).fetchall()
    told = [line for *_, line in plan if "ended" in line or "gone" in line]
    assert all("SEARCH" in line for line in told), told
    assert any(PLANS[name] in line for line in told), told


def test_on_postgresql_groups_are_read_without_reading_all_that_died(postgres_url):
    with fresh_schema(postgres_url) as store, psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO {store.prefix}ended (id, job_type, queue, category, state, priority, run_at,"
            " max_attempts, payload, created_at, error, outcome, ended_at)"
            " SELECT gen_random_uuid(), 't', 'q', 'default', 'dead', 5, now(), 5, '{}', now(),"
            " jsonb_build_object('error_class', 'E', 'fingerprint', CASE WHEN n % 1000 = 0 THEN md5(n::text)"
            " ELSE 'aaaaaaaaaaaa' END), 'failed', now() FROM generate_series(1, 5000) AS n".encode()
        )
        connection.execute(f"VACUUM ANALYZE {store.prefix}ended".encode())
        page = Client(store=store).dead.groups()
        assert sorted((group.count, group.capped) for group in page) == [
            *[(1, False)] * 5,
            (200, True),
        ]
        asked = next(dead_groups.list_groups(DeadFilter()))
        assert isinstance(asked, Statement)
        [step] = catalogue("postgres", "percent", store.prefix)["list_dead_groups"].steps
        params = {**asked.params, "only_org": None, "only_project": None, "cap": 10}
        explain = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + step.text.encode()
        # The first time it reads the catalogue, too.
        for _ in range(2):
            [[[told]]] = connection.execute(explain, params).fetchall()
    # To fetch each of the dead would take as many.
    assert told["Plan"]["Shared Hit Blocks"] + told["Plan"]["Shared Read Blocks"] < 2500
