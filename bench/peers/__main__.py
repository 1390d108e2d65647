"""Measure Onward beside its peers: `make bench-peers [ARGS="--peer PgQueuer --rounds 1 --jobs 9000 --json"]`.

In each round everybody is measured once, in turns, on a database of its own on one durable server. What
counts is the median of the rounds' ratios, because machines differ and are never quiet.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bench.children import ask, drain, percentile, working
from bench.peers.installing import install
from bench.peers.roster import PEERS, Peer
from bench.peers.showing import Round, show, summary
from bench.servers import used_server
from tests.postgres import fresh_database

SINGLES = 1000
GATHERED = 20_000
SAMPLES = 200


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    parser.add_argument("--peer", action="append", help="only this one, beside Onward; may be repeated")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default 3)")
    parser.add_argument(
        "--jobs", type=int, default=60_000, help="jobs to drain and in a bulk (default 60000)"
    )
    parser.add_argument("--without-onward", action="store_true", help="measure the peers alone")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    options = parser.parse_args()
    chosen = choose(options.peer, onward=not options.without_onward)
    runtimes = {peer.runtime for peer in chosen}
    install(python="python" in runtimes, node="node" in runtimes)
    with used_server() as server:
        numbers = range(1, options.rounds + 1)
        rounds = [one_round(number, chosen, server, options.jobs) for number in numbers]
    result = {
        "jobs": options.jobs,
        "settings": {peer.name: peer.settings for peer in chosen},
        "rounds": rounds,
        **summary(rounds),
    }
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)
    return 0


def choose(names: list[str] | None, *, onward: bool) -> list[Peer]:
    if names and (unknown := set(names) - {peer.name for peer in PEERS}):
        raise SystemExit(f"bench-peers: no peer {sorted(unknown)}; there are {[p.name for p in PEERS]}")
    asked = [peer for peer in PEERS if peer.runtime != "onward" and (not names or peer.name in names)]
    bases = {peer.sqlite for peer in asked} if names else {True, False}
    ours = [peer for peer in PEERS if peer.runtime == "onward" and peer.sqlite in bases]
    return (ours if onward else []) + asked


def one_round(number: int, peers: list[Peer], server: str, jobs: int) -> Round:
    """Measure everybody once, stage by stage, so that a slow minute of the machine hits all alike."""
    found: Round = {peer.name: {} for peer in peers}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stages = {}
        for peer in peers:
            database = f"peer_{peer.name.lower().replace('-', '_').replace(' ', '_')}_{time.time_ns()}"
            url = "" if peer.sqlite else stack.enter_context(fresh_database(server, database))
            stages[peer.name] = stages_of(peer, peer.address(url, folder), jobs)
        for step in zip(*stages.values(), strict=True):
            for name, results in zip(stages, step, strict=True):
                found[name] |= results
            # At once, so that a run that is stopped has told what it found.
            told = {
                name: {what: round(value, 1) for what, value in results.items()}
                for name, results in zip(stages, step, strict=True)
                if results
            }
            print(f"round {number}: {json.dumps(told)}", file=sys.stderr, flush=True)
    return found


def stages_of(peer: Peer, address: str, jobs: int) -> Iterator[dict[str, float]]:
    """Measure one peer on an empty database; as many stages for everybody, empty where it has none."""
    command = peer.command(address)
    ask(command, "setup")
    yield {"enqueue one by one": SINGLES / ask(command, "one", SINGLES)["seconds"]}
    drain(command, SINGLES, peer.left(address))
    yield only_ours(peer, address)
    for processes in (1, 2):
        yield bulk_and_drain(peer, address, int(jobs * peer.drained), processes)
    waits = latency(peer, address)
    yield {f"latency p{share}": percentile(waits, share / 100) / 1e3 for share in (50, 95, 99)}


def only_ours(peer: Peer, address: str) -> dict[str, float]:
    """Measure what no peer has a form of: callers that are gathered, and a bulk with idempotency keys."""
    if peer.runtime != "onward":
        return {}
    command = peer.command(address)
    found = {
        name: GATHERED / ask(command, verb, GATHERED)["seconds"]
        for name, verb in (("100 callers", "callers"), ("bulk enqueue with keys", "keyed"))
    }
    drain(command, 2 * GATHERED, peer.left(address))
    return found


def bulk_and_drain(peer: Peer, address: str, jobs: int, processes: int) -> dict[str, float]:
    if processes not in peer.processes:
        return {}
    command = peer.command(address)
    seconds = ask(command, "many", jobs)["seconds"]
    peer.tidy(address)
    drained = drain(command, jobs, peer.left(address), processes)
    if processes > 1:
        return {f"drain, {processes} processes": drained.rate}
    found = {"bulk enqueue": jobs / seconds} if peer.bulk else {}
    found |= {"drain, 1 process": drained.rate, "CPU of the worker": drained.cpu_micros}
    if peer.runtime == "onward":
        found["drain, audit off"] = drain_unaudited(peer, address, jobs)
    return found


def drain_unaudited(peer: Peer, address: str, jobs: int) -> float:
    """Drain in the same minute without the audit, which no peer keeps."""
    command = peer.command(address)
    silent = replace(command, environment={**command.environment, "ONWARD_BENCH_AUDIT": "off"})
    ask(silent, "many", jobs)
    peer.tidy(address)
    return drain(silent, jobs, peer.left(address)).rate


def latency(peer: Peer, address: str) -> list[float]:
    """Give microseconds from enqueue call to handler start, of a worker that has nothing else to do."""
    command = peer.command(address)
    with working(command) as worker:
        worker.tell("go")
        # The first ones warm it up.
        ask(command, "trickle", SAMPLES + 20)
        worker.until(SAMPLES + 20)
        waits: list[float] = worker.stop()["waits"][20:]
    return waits


if __name__ == "__main__":
    raise SystemExit(main())
