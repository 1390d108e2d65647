"""Workers whose PostgreSQL crashes, hangs up, goes silent or is full: they wait, and lose nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import Any, Self
from uuid import uuid4

import psycopg
import pytest

from onward import JobState, NewJob
from onward.errors import StorageFull, StoreError
from tests.extent import FULL
from tests.postgres import PostgresServer, start_postgres
from tests.proxy import proxied
from tests.worker.faults.faults_history import broken
from tests.worker.faults.place import Place, fresh_place, may_mount, small_disk, until

ROUNDS, AWAY = (10, 2.0) if FULL else (2, 0.5)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that these tests may stop and start."""
    server = start_postgres(durable=True)
    yield server
    server.close()


@pytest.fixture
def place(server: PostgresServer) -> Iterator[Place]:
    """Empty tables on that server."""
    server.start()
    with fresh_place(server.url(), f"t_{uuid4().hex[:12]}") as place:
        yield place


class Load:
    """Enqueues without a break; a job whose fate is unknown is asked for again, under its key."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._end = threading.Event()
        self.ids: list[str] = []
        self.unknown = 0
        self._thread = threading.Thread(target=self._put)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _put(self) -> None:
        while not self._end.wait(0.02):
            number = len(self.ids)
            job_type = ("step", "stride")[number % 2]
            job = NewJob(job_type=job_type, key=f"load-{number}", payload={"seconds": 0.03})
            with suppress(StoreError):
                self.ids.append(self._place.client.enqueue(job).id)
                continue
            self.unknown += 1


def passed(moment: float) -> Callable[[], bool]:
    return lambda: time.monotonic() > moment


def succeeded(place: Place, job_id: str) -> Callable[[], bool]:
    return lambda: place.state(job_id) == JobState.SUCCEEDED


# F15
def test_a_crash_of_the_server_costs_no_job_and_no_worker(server, place, tmp_path):
    picked_up = []
    held: list[str] = []
    with place.worker() as worker, Load(place) as load:
        worker.wait_for("  worker ")
        for number in range(ROUNDS):
            gate = tmp_path / f"gate-{number}"
            held += [place.put(kind, gate=str(gate)) for kind in ("waits", "waits_in_a_thread")]
            for _ in range(2):
                worker.wait_for("began waits")
            server.stop("immediate")
            # Their handlers end while nobody can write it down.
            gate.touch()
            worker.wait_for("database trouble")
            away = time.monotonic()
            until(passed(away + AWAY))
            server.start()
            back = datetime.now(UTC)
            place.client.jobs.count()
            probe = place.put("step")
            held.append(probe)
            until(succeeded(place, probe))
            picked_up.append((place.client.jobs.get(probe).started_at - back).total_seconds())
            worker.wait_for("database is back")
        load.__exit__()
        ids = [*held, *load.ids]
        until(lambda: place.ended() == len(ids), about=place.client.jobs.count)
        worker.send(signal.SIGTERM)
        assert worker.end() == 0
    print("pick-up after a crash restart:", " ".join(f"{seconds:.3f}" for seconds in picked_up))
    assert broken(place.client, ids) == []
    assert {place.client.jobs.get(job_id).attempt for job_id in held} == {1}, "their results were kept"
    assert max(picked_up) < 1.0
    for told in ("database trouble", "database is back", "wake-ups lost"):
        assert worker.output.count(told) <= ROUNDS, worker.output
    assert "its result is refused" not in worker.output


def test_an_outage_longer_than_the_lease_ends_every_job_once(server, place, tmp_path):  # F16
    gate = tmp_path / "gate"
    with place.worker("--lease", "2s") as worker:
        ids = [place.put(kind, gate=str(gate)) for kind in ("waits", "waits_in_a_thread")]
        for _ in range(2):
            worker.wait_for("began waits")
        server.stop("immediate")
        worker.wait_for("database trouble")
        away = time.monotonic()
        until(lambda: time.monotonic() - away > 3.0)
        gate.touch()
        server.start()
        # A question is asked again by itself when its connection turns out to be dead.
        place.client.jobs.count()
        ids.append(place.put("step"))
        until(lambda: place.ended() == 3, about=place.client.jobs.count)
        worker.send(signal.SIGTERM)
        assert worker.end() == 0
    assert broken(place.client, ids) == []
    assert worker.output.count("database trouble") == 1


def backends(place: Place, where: str) -> set[int]:
    rows = place.query(f"SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND {where}")
    return {pid for (pid,) in rows}


def end_backends(place: Place, where: str) -> int:
    asked = (
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND {where}"
    )
    return len(place.query(asked))


def test_sessions_that_are_ended_are_replaced_and_that_is_told_once(place, tmp_path):  # F14
    gate = tmp_path / "gate"
    with place.worker() as worker:
        held = place.put("waits", gate=str(gate))
        worker.wait_for("began waits")
        assert end_backends(place, "application_name LIKE 'onward%'") >= 3
        place.client.jobs.count()
        since = time.monotonic()
        probe = place.put("step")
        gate.touch()
        until(lambda: place.ended() == 2, about=place.client.jobs.count)
        assert time.monotonic() - since < 2.0
        # Not all of its loops need have asked again by now.
        until(lambda: worker.has_said("database is back") or not worker.has_said("database trouble"))
        worker.send(signal.SIGTERM)
        assert worker.end() == 0
    assert broken(place.client, [held, probe]) == []
    assert worker.output.count("database trouble") <= 1, worker.output
    assert worker.output.count("database is back") == worker.output.count("database trouble")


def test_a_lost_wake_up_connection_is_replaced_and_costs_no_job(place):  # F18, S0-40
    listening = "application_name = 'onward wake-ups' AND query LIKE 'LISTEN%'"
    with place.worker() as worker:
        until(lambda: backends(place, listening))
        [first] = backends(place, listening)
        assert end_backends(place, listening) == 1
        between = place.put("step")
        until(lambda: place.state(between) == JobState.SUCCEEDED)
        until(lambda: backends(place, listening) - {first})
        took = []
        for _ in range(5):
            since = time.monotonic()
            probe = place.put("step")
            until(succeeded(place, probe))
            took.append(time.monotonic() - since)
        # By polling alone the five would take some seconds.
        assert sorted(took)[2] < 0.4
        worker.send(signal.SIGTERM)
        assert worker.end() == 0
    assert worker.output.count("wake-ups lost") == 1
    assert "database trouble" not in worker.output


def take_all(server: PostgresServer, hogs: ExitStack) -> None:
    """Connect until the server refuses."""
    with suppress(psycopg.OperationalError):
        while True:
            hogs.enter_context(psycopg.connect(server.url()))


def test_a_server_without_free_connections_is_waited_for(server, place, tmp_path):  # F26
    gate = tmp_path / "gate"
    with place.worker() as worker, ExitStack() as hogs:
        held = place.put("waits", gate=str(gate))
        worker.wait_for("began waits")
        asker = hogs.enter_context(psycopg.connect(server.url(), autocommit=True))
        place.client.close()
        asked = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'onward%'"
        take_all(server, hogs)
        while asker.execute(asked).fetchall():
            # What the worker loses is taken before it can have it again.
            take_all(server, hogs)
        worker.wait_for("database trouble")
        gate.touch()
        hogs.close()
        with fresh_place(place.url, place.schema) as again:
            probe = again.put("step")
            until(lambda: again.ended() == 2, about=again.client.jobs.count)
            worker.send(signal.SIGTERM)
            assert worker.end() == 0
            assert broken(again.client, [held, probe]) == []
            assert again.client.jobs.get(held).attempt == 1
    assert worker.output.count("database trouble") <= 2, worker.output


@pytest.mark.parametrize("fault", ["cut", "deaf"])
def test_a_worker_without_its_database_still_stops_within_its_grace(server, place, tmp_path, fault):  # F10
    gate = tmp_path / "gate"
    with proxied(server.url()) as proxy:
        place.workers_url = proxy.url
        with place.worker("--grace", "1s") as worker:
            held = place.put("waits", gate=str(gate))
            endless = place.put("waits", gate=str(tmp_path / "never"))
            for _ in range(2):
                worker.wait_for("began waits")
            if fault == "cut":
                proxy.close()
                worker.wait_for("database trouble")
            else:
                proxy.go_deaf()
            gate.touch()
            asked = time.monotonic()
            worker.send(signal.SIGTERM)
            code = worker.end()
            took = time.monotonic() - asked
    assert code == 5, worker.output
    assert took < 1.0 + 5.0
    assert "Traceback" not in worker.output
    place.workers_url = None
    with place.worker() as heir:
        heir.wait_for("  worker ")
        for worker_id in {place.client.jobs.get(job_id).worker_id for job_id in (held, endless)}:
            place.client.worker.rescue_worker(worker_id)
        until(lambda: place.ended() == 2, about=place.client.jobs.count)
    assert broken(place.client, [held, endless]) == []


def test_a_connection_on_which_nothing_arrives_any_more_is_replaced(server, place, tmp_path):  # F17
    gate = tmp_path / "gate"
    with proxied(server.url()) as proxy:
        place.workers_url = proxy.url
        with place.worker("--lease", "6s") as worker:
            held = place.put("waits", gate=str(gate))
            worker.wait_for("began waits")
            proxy.go_deaf()
            probe = place.put("step")
            gate.touch()
            # Long enough for every loop to have asked something that is never answered.
            since = time.monotonic()
            until(lambda: time.monotonic() - since > 1.5)
            proxy.hear_again()
            took = until(lambda: place.ended() == 2, 25, about=place.client.jobs.count)
            print(f"after a silent connection: {took:.2f} s")
            worker.send(signal.SIGTERM)
            assert worker.end() == 0
    assert broken(place.client, [held, probe]) == []


@pytest.fixture
def small_place(server: PostgresServer) -> Iterator[Place]:
    """Tables in a database that has 24 MB of disk."""
    name = f"small_{uuid4().hex[:8]}"
    folder = server.directory / name
    folder.mkdir()
    owner = server.directory.stat()
    with small_disk(folder, 24), psycopg.connect(server.url(), autocommit=True) as connection:
        os.chown(folder, owner.st_uid, owner.st_gid)
        connection.execute(f"CREATE TABLESPACE {name} LOCATION '{folder}'")
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 TABLESPACE {name}")
        with fresh_place(server.url(name), "onward") as place:
            yield place
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        connection.execute(f"DROP TABLESPACE {name}")


def fill(connection: psycopg.Connection[Any], size: int) -> None:
    """Write rows until there is no space."""
    with suppress(psycopg.errors.DiskFull):
        while True:
            connection.execute(
                f"INSERT INTO filler SELECT repeat('x', {size}) FROM generate_series(1, 200)".encode()
            )


if may_mount():

    def test_a_full_disk_of_the_server_is_waited_out(small_place, tmp_path):  # F28
        place = small_place
        gate = tmp_path / "gate"
        with place.worker() as worker, psycopg.connect(place.url, autocommit=True) as filler:
            held = place.put("waits", gate=str(gate))
            worker.wait_for("began waits")
            filler.execute("CREATE TABLE filler (filling text)")
            filler.execute("ALTER TABLE filler ALTER filling SET STORAGE PLAIN")
            for size in (7000, 1):
                fill(filler, size)
            accepted = place.put_until(StorageFull)
            gate.touch()
            worker.wait_for("StorageFull")
            filler.execute("DROP TABLE filler")
            filler.execute("CHECKPOINT")
            since = time.monotonic()
            after = place.put("step")
            ids = [held, after, *accepted]
            until(lambda: place.ended() == len(ids), about=place.client.jobs.count)
            assert time.monotonic() - since < 5.0
            worker.send(signal.SIGTERM)
            assert worker.end() == 0
        assert broken(place.client, ids) == []
        assert worker.output.count("StorageFull") <= 2, worker.output


def test_a_burst_of_jobs_wakes_a_waiting_worker_with_few_notifications(place):  # F27
    with place.worker() as worker, psycopg.connect(place.url, autocommit=True) as listener:
        until(lambda: place.query(f"SELECT 1 FROM {place.schema}.workers WHERE idle_since IS NOT NULL"))
        listener.execute(f'LISTEN "{place.schema}"')
        place.put_many(3000, "step")
        until(lambda: place.ended() == 3000, about=place.client.jobs.count)
        told = [notice.payload for notice in listener.notifies(timeout=0)]
        worker.send(signal.SIGTERM)
        assert worker.end() == 0
    assert set(told) == {"q:default"}
    assert len(told) <= 3


def test_a_result_that_meets_a_lock_is_written_when_the_lock_is_gone(place, tmp_path):  # F29
    gate = tmp_path / "gate"
    place.workers_url = f"{place.url}?options=-c%20lock_timeout%3D100ms"
    with place.worker() as worker, psycopg.connect(place.url) as rival:
        held = place.put("waits", gate=str(gate))
        worker.wait_for("began waits")
        rival.execute(f"SELECT 1 FROM {place.schema}.live WHERE id = %s FOR UPDATE", (held,))
        gate.touch()
        worker.wait_for("lock timeout")
        rival.rollback()
        until(lambda: place.ended() == 1, about=place.client.jobs.count)
        worker.send(signal.SIGTERM)
        assert worker.end() == 0
    assert broken(place.client, [held]) == []
    assert place.state(held) == JobState.SUCCEEDED


def test_no_more_is_claimed_while_thousands_of_results_can_not_be_written(place):
    place.put_many(12_000, "step")
    running: list[int] = []

    def claims_no_more() -> bool:
        [[count]] = place.query(f"SELECT count(*) FROM {place.schema}.live WHERE state = 'running'")
        running.append(count)
        return count > 5000 and running[-20:] == [count] * 20

    with psycopg.connect(place.url) as rival:
        rival.execute(f"LOCK TABLE {place.schema}.ended")
        with place.worker() as worker:
            until(claims_no_more)
            assert running[-1] < 10_000
            rival.rollback()
            until(lambda: not place.client.jobs.count().live, about=place.client.jobs.count)
            worker.send(signal.SIGTERM)
            assert worker.end() == 0
