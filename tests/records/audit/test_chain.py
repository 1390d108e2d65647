"""The chain in the database: sealed by one at a time, and whole until somebody tampers with a row."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from onward import Client, NewJob, Onward
from onward.core.records.chain import RECORD, Head, links
from onward.errors import AuditBroken, InvalidSetting
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.jobs.inspect.reading import rows
from tests.postgres import fresh_database
from tests.records.audit.audit_history import finished
from tests.stores.postgres.postgres_schema import fresh_schema


@pytest.fixture
def sealed(client: Client) -> Client:
    """A database whose audit is sealed and settled, and whose triggers somebody has taken away."""
    finished(client)
    settle(client)
    if isinstance(client.store, PostgresStore):
        for table in ("audit", "chain"):
            rows(client, f"DROP TRIGGER append_only ON {{prefix}}{table}")
        for trigger in ("never_back", "never_gone"):
            rows(client, f"DROP TRIGGER {trigger} ON {{prefix}}sealing")
    else:
        for [name] in rows(client, "SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            rows(client, f"DROP TRIGGER {name}")
    return client


def settle(client: Client) -> None:
    """Seal until the floor is where the chain ends: others on the server may have transactions open."""
    sealed = client.audit.seal()
    later = datetime.now(UTC)
    while sealed.floor < sealed.upto:
        later += timedelta(minutes=1)
        sealed = client.at(later).audit.seal()


def faults(client: Client) -> list[tuple[str, int | None]]:
    return [(fault.what, fault.seq) for fault in client.audit.verify().faults]


def numbers(client: Client) -> list[int]:
    return [record.seq for record in client.audit.list(limit=1000, oldest_first=True)]


def test_what_happens_is_sealed_in_its_order_and_the_whole_is_verified(client):
    finished(client)
    found = client.audit.verify()
    assert found.intact
    assert (found.links, found.head.position) == (len(numbers(client)),) * 2
    finished(client)
    again = client.audit.verify(head=found.head)
    assert again.intact
    assert again.links == 2 * found.links
    assert client.audit.verify(head=str(again.head)).intact
    assert [fault.what for fault in client.audit.verify(head=Head(found.links, "0" * 64)).faults] == [
        "broken"
    ]
    with pytest.raises(InvalidSetting, match="POSITION:LINK"):
        client.audit.verify(head="head")


def test_an_empty_audit_is_whole(client):
    assert client.audit.verify().intact
    assert client.audit.seal().count == 0


def test_an_edit_of_any_column_is_found(sealed):
    edited: list[tuple[str, int]] = []
    for column, seq in zip(RECORD[1:], numbers(sealed), strict=False):
        value = {
            "at": "at + interval '1 s'" if isinstance(sealed.store, PostgresStore) else "at + 1",
            "attempt": "attempt + 1",
            "lease": "lease + 1",
            "job_id": "'01890000-0000-7000-8000-000000000000'",
            "detail": "'[1]'",
        }.get(column, "'forged'")
        rows(sealed, f"UPDATE {{prefix}}audit SET {column} = {value} WHERE seq = {seq}")
        edited.append(("edited", seq))
        assert faults(sealed) == edited
    assert len(edited) == len(RECORD) - 1


def test_an_edited_row_is_found_whichever_it_is(sealed):
    for seq in (every := numbers(sealed)):
        rows(sealed, f"UPDATE {{prefix}}audit SET event = 'job.forged' WHERE seq = {seq}")
        assert faults(sealed) == [("edited", known) for known in every if known <= seq]


def test_a_removed_row_is_found_whichever_it_is(sealed):
    every = numbers(sealed)
    for gone, seq in enumerate(every, 1):
        rows(sealed, f"DELETE FROM {{prefix}}audit WHERE seq = {seq}")
        assert faults(sealed) == [("removed", seq) for seq in every[:gone]]


def test_a_row_that_is_put_in_below_the_floor_is_found(sealed):
    # Up to the floor every number that was given is in the chain, so whatever else is there was put in.
    rows(sealed, "UPDATE {prefix}sealing SET floor = floor + 100")
    last = numbers(sealed)[-1]
    put_in(sealed, last + 50)
    assert faults(sealed) == [("inserted", last + 50)]
    put_in(sealed, -7)
    assert faults(sealed) == [("inserted", -7), ("inserted", last + 50)]
    if isinstance(sealed.store, PostgresStore):
        # There a number may be given twice, by hand.
        put_in(sealed, last)
        assert ("inserted", last) in faults(sealed)


@pytest.mark.parametrize("floor", ["floor", "-9", "-9000000000000000000"])
def test_a_row_with_a_number_that_is_never_given_is_found_wherever_the_floor_is(sealed, floor):
    put_in(sealed, -1)
    rows(sealed, f"UPDATE {{prefix}}sealing SET floor = {floor}")
    assert faults(sealed) == [("inserted", -1)]
    assert faults(sealed) == [("inserted", -1)], "it was not sealed meanwhile"


def test_a_row_with_a_number_that_is_never_given_is_found_also_in_the_chain(sealed):
    [(position, link)] = rows(sealed, "SELECT position, link FROM {prefix}sealing")
    put_in(sealed, -1)
    [(row,)] = [
        (row,)
        for row in rows(sealed, "SELECT {} FROM {{prefix}}audit WHERE seq = -1".format(", ".join(RECORD)))
    ]
    at = int(row[1].timestamp() * 1_000_000) if isinstance(row[1], datetime) else row[1]
    [forged] = links(Head(position, link), [(row[0], at, *row[2:])])
    rows(
        sealed,
        "INSERT INTO {prefix}chain (position, seq, digest, link) "
        f"VALUES ({forged.position}, -1, '{forged.digest}', '{forged.link}')",
    )
    rows(sealed, f"UPDATE {{prefix}}sealing SET position = {forged.position}, link = '{forged.link}'")
    assert ("inserted", -1) in faults(sealed)


def test_a_floor_that_was_raised_beyond_all_numbers_hides_nothing(sealed):
    last = numbers(sealed)[-1]
    rows(sealed, "UPDATE {prefix}sealing SET floor = 4000000000000000000")
    sealed.enqueue(NewJob(job_type="t"))
    found = faults(sealed)
    assert found
    assert all(what == "inserted" and seq is not None and seq > last for what, seq in found)


def test_a_chain_without_its_end_says_so(sealed):
    rows(sealed, "DELETE FROM {prefix}sealing")
    for act in (sealed.audit.seal, sealed.audit.verify, sealed.audit.prune):
        with pytest.raises(AuditBroken, match="restore it"):
            act()


def put_in(client: Client, seq: int) -> None:
    overriding = "OVERRIDING SYSTEM VALUE" if isinstance(client.store, PostgresStore) else ""
    rows(
        client,
        f"INSERT INTO {{prefix}}audit (seq, at, event) {overriding} "
        f"SELECT {seq}, max(at), 'job.forged' FROM {{prefix}}audit",
    )


def test_two_rows_that_change_places_are_found(sealed):
    one, two = numbers(sealed)[3:5]
    if isinstance(sealed.store, PostgresStore):
        rows(sealed, "ALTER TABLE {prefix}audit ALTER seq SET GENERATED BY DEFAULT")
    for old, new in ((one, -1), (two, one), (-1, two)):
        rows(sealed, f"UPDATE {{prefix}}audit SET seq = {new} WHERE seq = {old}")
    assert faults(sealed) == [("edited", one), ("edited", two)]


def test_an_edited_link_is_found(sealed):
    for position, change in enumerate(
        ("seq = seq + 1000", "digest = '00'", "link = '00'", "pruned = 1", "position = position + 1000"), 2
    ):
        before = set(faults(sealed))
        rows(sealed, f"UPDATE {{prefix}}chain SET {change} WHERE position = {position}")
        assert set(faults(sealed)) > before


def test_links_that_are_cut_off_are_found_even_with_their_rows(sealed):
    [[last]] = rows(sealed, "SELECT max(seq) FROM {prefix}audit")
    for table in ("audit", "chain"):
        rows(sealed, f"DELETE FROM {{prefix}}{table} WHERE seq = {last}")
    assert faults(sealed) == [("cut", None)]


def test_a_chain_that_somebody_else_went_on_with_is_not_gone_on_with(sealed):
    [[last]] = rows(sealed, "SELECT max(position) FROM {prefix}chain")
    rows(
        sealed,
        f"INSERT INTO {{prefix}}chain (position, seq, digest, link) VALUES ({last + 1}, 100000, '00', '00')",
    )
    sealed.enqueue(NewJob(job_type="t"))
    assert ("broken", None) in faults(sealed)


def test_many_sealers_at_once_make_one_chain(client):
    finished(client)
    ready = threading.Barrier(4)

    def seal() -> int:
        ready.wait()
        return sum(client.audit.seal().count for _ in range(5))

    with ThreadPoolExecutor(4) as threads:
        counts = [threads.submit(seal) for _ in range(4)]
        for _ in range(10):
            client.enqueue(NewJob(job_type="t"))
        total = sum(count.result() for count in counts)
    assert client.audit.verify().intact
    assert total <= len(numbers(client)) == client.audit.seal().head.position


def test_a_row_that_commits_late_is_sealed_later(postgres_server_url, worker_id):
    # Its own database: the floor waits for every open transaction that could still have a lower number.
    with fresh_database(postgres_server_url, f"onward_late_{worker_id}") as url, fresh_schema(url) as store:
        client = Client(store=store)
        with closing(psycopg.connect(url)) as late:
            client.within(late).enqueue(NewJob(job_type="late"))
            client.enqueue(NewJob(job_type="early"))
            now = datetime.now(UTC)
            for minutes in range(3):
                sealed = client.at(now + timedelta(minutes=minutes)).audit.seal()
                assert (sealed.head.position, sealed.floor) == (1, 0)
            late.commit()
        assert client.audit.verify().links == 2
        order = rows(client, "SELECT seq FROM {prefix}chain ORDER BY position")
        assert order == [(2,), (1,)]
        settle(client)
        assert client.audit.seal().floor == 2
        assert client.audit.verify().intact


def test_a_worker_of_an_application_with_a_chain_seals(tmp_path):
    app = Onward(f"sqlite:///{tmp_path}/onward.db", audit_chain=True)

    @app.job
    async def noop() -> None: ...

    noop.enqueue()

    async def work() -> int:
        async with app.worker():
            async with asyncio.timeout(10):
                while True:
                    [[position]] = rows(app.client, "SELECT position FROM {prefix}sealing")
                    if position >= 3:
                        return int(position)
                    await asyncio.sleep(0.02)

    assert asyncio.run(work()) >= 3
    assert app.client.audit.verify().intact
    app.close()


def test_a_verification_in_steps_shows_how_far_it_is(sealed):
    sealed.enqueue_many([NewJob(job_type="t")] * 1500)
    steps = list(sealed.audit.verify_in_steps())
    last = sealed.audit.verify()
    assert [(step.links, step.total) for step in steps] == [
        (1000, last.links),
        *[(last.links, last.links)] * 2,
    ]
    assert steps[-1] == last
