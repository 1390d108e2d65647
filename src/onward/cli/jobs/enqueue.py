"""`onward enqueue`: put a job into the queue and, with `--wait`, wait until it ends."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click

from onward.cli.find_app import find_app
from onward.cli.jobs.payload_argument import read_payload, words_to_payload
from onward.cli.limits.existing_names import nearest
from onward.cli.operator_options import check_actor
from onward.cli.times import read_instant, read_length
from onward.cli.views.progress_line import ProgressLine
from onward.cli.views.text import say, short, shown_json
from onward.core.inputs.duration import lasting
from onward.core.inputs.plain_text import one_line as clean
from onward.errors import InvalidSetting, JobNotEnded

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.clients.sync.client import Client
    from onward.core.jobs.job import Enqueued, Job, NewJob
    from onward.core.secrets.redaction import Redaction

_JOBS_FAILED = 6
_APP = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_FIRST_PAUSE, _GROWTH, _LONGEST_PAUSE = 0.02, 1.5, 0.5


@click.command("enqueue")
@click.argument("job")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE]…")
@click.option("--payload", metavar="@FILE|-|JSON", help="The payload, as a JSON object.")
@click.option(
    "--app", metavar="APP", help="module:attribute; else ONWARD_APP, onward.toml, pyproject.toml, ./app.py."
)
@click.option("--url", metavar="URL", help="The database; else the app's own, else ONWARD_URL.")
@click.option("--delay", help="Run the job after this delay, such as 90s, 10m or 7d.")
@click.option(
    "--at",
    metavar="TIME",
    help="Run the job at this time, such as 2026-01-31T18:00+01:00; without an offset, in local time.",
)
@click.option("--priority", type=int, help="1 to 10, or -1000 to 1000: a lower one runs first.")
@click.option("--queue", help="The queue of the job.")
@click.option("--key", help="The idempotency key; one job at a time holds it.")
@click.option("--unique", metavar="TIME", help="How long the job holds the key: 7d, active or forever.")
@click.option(
    "--on-conflict",
    type=click.Choice(["return", "raise", "replace", "reset", "coalesce"]),
    help="What to do if another job holds the key.",
)
@click.option("--org", "org_id", help="The org of the job.")
@click.option("--project", "project_id", help="The project of the job.")
@click.option(
    "--actor", callback=check_actor, help="The actor that enqueues it: user:42, system:nightly, api_key:k1."
)
@click.option("--request-id", help="The id of the request that enqueues it.")
@click.option("--max-attempts", type=int, help="At most this many attempts.")
@click.option(
    "--wait", is_flag=True, help="Wait for the end and print the result; exit with 6 if there is none."
)
@click.option("--timeout", metavar="TIME", help="Wait at most this long.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    *,
    job: str,
    words: tuple[str, ...],
    payload: str | None,
    app: str | None,
    url: str | None,
    wait: bool,
    timeout: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Put a job of the type JOB into the queue."""
    if words and payload is not None:
        raise InvalidSetting("give key=value words or --payload, not both")
    if timeout is not None and not wait:
        raise InvalidSetting("--timeout needs --wait; give both")
    from onward.cli.views.banner import describe_database
    from onward.handlers.clients import Clients

    known = find_app(app, url)
    _refuse_an_app(job, known, words)
    chosen = _read(options)
    # A required contract gives every job a key.
    strict = known is not None and known.policies.settings.contract == "required"
    new = _build(known, job, words, payload, {**_origin(), **chosen} if strict else chosen)
    if "unique" in chosen and new.key is None and not strict:
        raise InvalidSetting("--unique says how long a key holds, but the job has none; give --key too")
    with (known.clients if known else Clients(url)).open() as client:
        if known is None:
            # In the wrong folder this creates a new database, so the user must see which one it is.
            say(f"the job goes to {describe_database(client)}", timed=False)
            _say_if_unknown(client, job)
        enqueued = client.enqueue(new)
        if not wait:
            _print_enqueued(enqueued, as_json=as_json)
            return 0
        ended = _wait(client, enqueued, timeout, as_json=as_json)
        return _print_ended(enqueued, ended, as_json=as_json)


def _read(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, with their times and lengths of time read."""
    chosen = {name: value for name, value in options.items() if value is not None}
    if "at" in chosen:
        chosen["run_at"] = read_instant("--at", chosen.pop("at"))
    if "delay" in chosen:
        chosen["delay"] = read_length("--delay", chosen["delay"])
    if chosen.get("unique", "active") not in {"active", "forever"}:
        chosen["unique"] = read_length("--unique", chosen["unique"])
    return chosen


def _origin() -> dict[str, str]:
    """Return the actor and request id that an app with a required contract expects."""
    from getpass import getuser
    from socket import gethostname
    from uuid import uuid4

    return {"actor": f"user:{getuser()}@{gethostname()}", "request_id": f"cli-{uuid4()}"}


def _build(
    app: Onward | None, name: str, words: tuple[str, ...], payload: str | None, options: Mapping[str, Any]
) -> NewJob:
    """Return the job to store; without an app its arguments are not checked."""
    from onward.core.jobs.job import NewJob
    from onward.handlers.enqueue_options import Request

    if app is None:
        say("no app found, so the arguments are not checked; name one with --app or ONWARD_APP", timed=False)
        arguments = words_to_payload(words, None) if payload is None else read_payload(payload)
        return Request(NewJob(job_type=name)).using(options).build(arguments)
    job_type = app.jobs.get(name)
    if job_type is None:
        near = get_close_matches(name, app.jobs, 1)
        advice = f'Did you mean "{near[0]}"?' if near else f"It has {', '.join(app.jobs) or 'none'}."
        raise InvalidSetting(f'the app has no job type "{name}". {advice}')
    function = job_type.handler.function
    arguments = words_to_payload(words, function) if payload is None else read_payload(payload)
    return job_type.using(**options).build(**arguments)


def _refuse_an_app(job: str, known: Onward | None, words: Sequence[str]) -> None:
    """Raise InvalidSetting if the job is written as an app, which `onward worker` takes first."""
    if _APP.fullmatch(job) and (known is None or job not in known.jobs):
        meant = words[0] if words and "=" not in words[0] else "JOB"
        raise InvalidSetting(f'"{job}" looks like an app: onward enqueue {clean(meant)} --app {job}')


def _say_if_unknown(client: Client, job_type: str) -> None:
    """Print a note if workers run and none of them knows the job type; a later one may."""
    now = datetime.now(UTC)
    known = [worker.job_types for worker in client.workers.list() if worker.lives(now)]
    if known and all(types is not None and job_type not in types for types in known):
        near = nearest(job_type, {name for types in known for name in types or ()})
        say(clean(f'note: no worker that runs now knows the job type "{job_type}"{near}'), timed=False)


def _wait(client: Client, enqueued: Enqueued, timeout: str | None, *, as_json: bool) -> Job:
    from onward.core.jobs.job import ENDED

    if not as_json:
        say(f"{short(enqueued.id)}  {enqueued.state or 'removed'}", timed=False)
    longest = None if timeout is None else read_length("--timeout", timeout).total_seconds()
    end = None if longest is None else time.monotonic() + longest
    pause = _FIRST_PAUSE
    with closing(ProgressLine()) as line, _telling_of_interrupts(enqueued):
        while (job := client.jobs.get(enqueued.id)).state not in ENDED:
            line.show(job.progress)
            left = pause if end is None else end - time.monotonic()
            if left <= 0:
                raise JobNotEnded(
                    f"job {job.id} is still {job.state} after {timeout}; it continues "
                    f"(onward doctor {job.id} explains why)"
                )
            time.sleep(min(pause, left))
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)
    return _without_secrets(job, client.policies.settings.redact)


@contextmanager
def _telling_of_interrupts(enqueued: Enqueued) -> Iterator[None]:
    """Print that a job stays when its wait is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"job {enqueued.id} stays in the queue; onward doctor {enqueued.id} shows it", timed=False)
        raise


def _without_secrets(job: Job, redaction: Redaction) -> Job:
    """Return the job without its payload's secrets in result and error, which are stored unredacted."""
    from msgspec.structs import replace

    secrets = redaction.secrets_of(job.payload)
    error = None if job.error is None else job.error.redacted(redaction, secrets)
    return replace(job, result=redaction.redact(job.result, secrets), error=error)


def _print_enqueued(enqueued: Enqueued, *, as_json: bool) -> None:
    if as_json:
        click.echo(shown_json(enqueued))
        return
    note = "" if enqueued.created else "   (it holds the key already)"
    click.echo(f"{short(enqueued.id, stream=sys.stdout)}  {enqueued.state or 'removed'}{note}")


def _print_ended(enqueued: Enqueued, job: Job, *, as_json: bool) -> int:
    """Print how a job ended and its result; return the exit code."""
    from onward.core.jobs.job import JobState
    from onward.core.work.error_record import ErrorRecord

    if as_json:
        shown = {"id": job.id, "state": job.state, "created": enqueued.created, "attempt": job.attempt}
        shown |= {"progress": job.progress, "result": job.result, "error": job.error}
        click.echo(shown_json(shown))
    else:
        states = [enqueued.state, JobState.RUNNING if job.started_at else None, job.state]
        path = " → ".join(dict.fromkeys(state for state in states if state))
        took = lasting((job.ended_at or job.created_at) - job.created_at)
        line = f"{short(job.id)}  {path}   attempt {job.attempt}/{job.max_attempts}   {took}"
        say(line, timed=False)
        if job.state == JobState.SUCCEEDED:
            click.echo(shown_json(job.result))
        else:
            error = job.error or ErrorRecord()
            parts = (error.error_class, error.message, error.reason)
            say(f"  {clean(': '.join(part for part in parts if part), 300)}", timed=False)
    return 0 if job.state == JobState.SUCCEEDED else _JOBS_FAILED
