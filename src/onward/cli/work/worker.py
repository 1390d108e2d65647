"""`onward worker`: run the jobs of an app in this process or in several child processes."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from onward.cli.find_app import load_app, name_of_app, pass_on_url
from onward.cli.limits.existing_names import nearest, queues_of
from onward.cli.log_setup import LEVELS, set_up_logs
from onward.cli.times import to_length
from onward.cli.views.text import shown_json
from onward.core.inputs.plain_text import one_line as clean
from onward.core.upkeep.diagnosis import positional
from onward.errors import InvalidSetting

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.clients.sync.client import Client
    from onward.worker.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options of the command."""

    app: str
    queues: tuple[str, ...]
    types: tuple[str, ...]
    processes: int
    concurrency: int
    grace: timedelta
    lease: timedelta
    drain: bool
    max_jobs: int | None
    url: str | None
    log_level: str
    as_json: bool
    dev: str | None

    def again(self) -> list[str]:
        """Return the command of one child; it leaves out the URL, since other users can list commands.

        The child gets the URL from its environment.
        """
        arguments = [sys.executable, "-m", "onward", "worker", self.app, "--log-level", self.log_level]
        arguments += ["--concurrency", str(self.concurrency)]
        arguments += [f"--grace={self.grace.total_seconds()}s", f"--lease={self.lease.total_seconds()}s"]
        arguments += [argument for chosen in self.queues for argument in ("-q", chosen)]
        arguments += [argument for chosen in self.types for argument in ("--types", chosen)]
        arguments += ["--max-jobs", str(self.max_jobs)] if self.max_jobs else []
        return [*arguments, *(["--drain"] if self.drain else [])]


@click.command("worker")
@click.argument("app", required=False)
@click.option(
    "-q",
    "--queues",
    multiple=True,
    metavar="Q[=N],…",
    help="Only these queues, each with at most N jobs at once.",
)
@click.option("--types", multiple=True, metavar="TYPE,…", help="Only jobs of these types.")
@click.option(
    "--processes", type=click.IntRange(1, 256), default=1, help="This many processes, restarted if they die."
)
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="The slots (jobs at once) of each process.",
)
@click.option(
    "--grace",
    callback=to_length,
    metavar="TIME",
    default="30s",
    show_default=True,
    help="How long jobs may finish after a request to stop.",
)
@click.option(
    "--lease",
    callback=to_length,
    metavar="TIME",
    default="30s",
    show_default=True,
    help="How long a silent worker keeps its jobs.",
)
@click.option(
    "--drain", is_flag=True, help="End when no job is left to run; exit with 6 if a job ended dead."
)
@click.option("--max-jobs", type=click.IntRange(1), help="End each process after this many jobs.")
@click.option("--url", metavar="URL", help="The database; else the app's own, else ONWARD_URL.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the number of jobs by outcome at the end, as JSON (one process).",
)
@click.option("--dev", type=click.Choice(["first", "again"]), hidden=True)
def command(**values: Any) -> int:
    """Run the jobs of APP (module:attribute) until a signal stops the worker.

    Without APP, the app comes from ONWARD_APP, onward.toml, pyproject.toml or ./app.py.
    """
    options = _Options(**{**values, "app": name_of_app(values["app"])})
    queues = parse_queues(options.queues)
    app = load_app(options.app, options.url)
    set_up_logs(options.log_level, options.app, tracebacks=options.dev is not None)
    _warn_of_unknown(queues or {}, app)
    if options.processes > 1:
        return _supervise(app, options, queues)
    return _work(app, options, queues)


def parse_queues(texts: Sequence[str]) -> dict[str, int | None] | None:
    """Read `q:critical=4,q:default`; a queue without a number may use every slot. None means all queues."""
    queues: dict[str, int | None] = {}
    for item in (item.strip() for text in texts for item in text.split(",")):
        name, equals, most = item.partition("=")
        if not name or (equals and not (most.isdecimal() and int(most) > 0)):
            raise InvalidSetting(
                f"-q {item!r:.80}: give a queue, or queue=N, where N (1 or more) is its most jobs at once"
            )
        if name in queues:
            raise InvalidSetting(f"-q names {name!r:.80} twice; give each queue once")
        queues[name] = int(most) if equals else None
    return queues or None


def parse_types(texts: Sequence[str]) -> list[str] | None:
    """Read `mail.send,mail.forget`; None means all job types."""
    types = [item.strip() for text in texts for item in text.split(",")]
    if "" in types:
        raise InvalidSetting(f"--types {','.join(texts)!r:.80}: give job types, with a comma between two")
    return types or None


def _warn_of_unknown(queues: Mapping[str, int | None], app: Onward) -> None:
    """Warn of a queue that no job type uses: it may be misspelt, or be meant for `.using(queue=…)`."""
    known = queues_of(app)
    for queue in queues:
        if queue not in known:
            note = f'note: no job type of this app goes to the queue "{queue}"{nearest(queue, known)}'
            click.echo(clean(note), err=True)


def _work(app: Onward, options: _Options, queues: Mapping[str, int | None] | None) -> int:
    """Run a worker in this process."""
    from onward.cli.process import run_worker
    from onward.cli.views import attempt_lines, banner
    from onward.worker.supervisor import Parent

    parent = Parent.find()
    announced: list[str] = []
    with app.clients.open() as client:
        database = banner.describe_database(client)
        if parent is None or options.dev == "first":
            _note_holds(client, queues, drain=options.drain)

    def registered(worker_id: str) -> None:
        quietly = options.dev == "again" or (parent is not None and options.dev is None)
        if not announced and not quietly:
            slots = f"{options.concurrency} slots"
            rows = {"database": database, "jobs": banner.describe_jobs(app)}
            rows["worker"] = banner.describe_worker(worker_id, slots, queues)
            title = "dev mode · reloads on change · Ctrl-C stops" if options.dev else "worker · Ctrl-C stops"
            banner.print_block(title, rows)
        announced.append(worker_id)
        if parent is not None:
            parent.tell_registered(worker_id)

    worker = app.worker(
        queues=queues, types=parse_types(options.types), concurrency=options.concurrency,
        lease=options.lease, grace=options.grace,
        drain=options.drain, max_jobs=options.max_jobs, on_registered=registered,
        on_end=attempt_lines.say_attempt if options.dev else None,
    )  # fmt: skip
    done = _print_tally if options.as_json else None
    return run_worker(worker, drain=options.drain, grace=options.grace, parent=parent, done=done)


def _note_holds(client: Client, queues: Mapping[str, int | None] | None, *, drain: bool) -> None:
    """Print what keeps the worker from starting jobs: the closed gate, and paused queues that it serves."""
    controls = client.gate.status()
    if (gate := controls.gate) is not None:
        by = _by(gate.actor_type, gate.actor_id)
        _note(f"the gate is closed{by}: {gate.reason}; no job will start. onward gate open")
    for pause in sorted(controls.pauses, key=lambda one: one.name):
        if pause.scope == "queue" and (queues is None or pause.name in queues):
            by = _by(pause.actor_type, pause.actor_id)
            wait = "its jobs stay, and --drain does not wait for them" if drain else "its jobs will not start"
            _note(
                f"queue {pause.name} is paused{by}: {pause.reason}; {wait}. "
                f"onward queues resume {positional(pause.name)}"
            )


def _by(actor_type: str | None, actor_id: str | None) -> str:
    actor = ":".join(part for part in (actor_type, actor_id) if part)
    return f" by {actor}" if actor else ""


def _note(text: str) -> None:
    click.echo(clean(f"note: {text}"), err=True)


def _print_tally(tally: Tally) -> None:
    failures = [{**failure._asdict(), "count": count} for failure, count in sorted(tally.failures.items())]
    click.echo(shown_json({**asdict(tally), "failures": failures}))


def _supervise(app: Onward, options: _Options, queues: Mapping[str, int | None] | None) -> int:
    """Run several workers, each in its own process."""
    from onward.cli.views import banner
    from onward.worker.supervisor import Supervisor

    if options.as_json:
        raise InvalidSetting("--json counts the jobs of one process; leave out --processes")
    with app.clients.open() as client:
        database = banner.describe_database(client)
        _note_holds(client, queues, drain=options.drain)
    rows = {"database": database, "jobs": banner.describe_jobs(app)}
    slots = f"{options.processes} processes of {options.concurrency} slots"
    rows["worker"] = banner.describe_worker(f"{socket.gethostname()}:{os.getpid()}", slots, queues)
    banner.print_block("supervisor · Ctrl-C stops", rows)

    def give_back(worker_id: str, how: str) -> int:
        with app.clients.open() as client:
            return len(client.worker.rescue_worker(worker_id, how=how).held)

    pass_on_url(app.clients.url)
    supervisor = Supervisor(options.again(), options.processes, give_back=give_back)
    return asyncio.run(supervisor.run())
