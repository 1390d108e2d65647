"""`onward doctor`: explain why a queue is stuck or why a job has not run."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from onward.cli.find_app import FoundApp, look_for_app
from onward.cli.operator_options import AS_JSON, PLACE, find_job, open_found, with_options
from onward.cli.views.text import masked, place_options, shown_json
from onward.core.inputs.plain_text import one_line as clean

if TYPE_CHECKING:
    from onward.clients.sync.client import Client
    from onward.core.jobs.ids import JobId
    from onward.core.upkeep.diagnosis import Finding

_MARKS = {"ok": "✓", "warning": "!", "problem": "✗"}
_PROBLEM, _NO_DATABASE = 1, 5
_MOST_JOBS = 10
_PLACE = re.compile(r"^(onward (?:worker|tick)) APP\b")
_COMMAND = re.compile(r"^onward [a-z]+(?: [a-z]+)?(?= |$)")


@click.command("doctor")
@click.argument("job_id", required=False)
@click.option("--subject", metavar="SUBJECT", help="The jobs of this subject, such as booking:42.")
@click.option("--job-type", metavar="TYPE", help="With --subject: only those of this type.")
@click.option("--deep", is_flag=True, help="Also look for damage; reads all of a SQLite file.")
@with_options(*AS_JSON, *PLACE)
def command(
    *,
    job_id: str | None,
    subject: str | None,
    job_type: str | None,
    deep: bool,
    as_json: bool,
    app: str | None,
    url: str | None,
) -> int:
    """Explain why jobs, or the job JOB_ID, do not run; each finding names the command that fixes it.

    Exits with 1 if there is a problem, with 5 if the database can't be queried.
    """
    if sum((job_id is not None, subject is not None)) > 1 or (job_type and subject is None):
        raise click.UsageError("give a JOB_ID, or --subject and perhaps --job-type")
    found = look_for_app(app, url)
    with open_found(found, url or os.environ.get("ONWARD_URL")) as client:
        findings = [] if found.broken is None else [_broken(found)]
        if job_id is None and subject is None:
            findings += client.doctor.check(deep=deep)
        else:
            jobs = _named(client, job_id, subject, job_type)
            findings += [finding for one in jobs for finding in client.doctor.explain(one)]
    findings = [_placed(finding, found.name, app, url) for finding in findings]
    if as_json:
        problems = any(finding.severity == "problem" for finding in findings)
        click.echo(shown_json({"ok": not problems, "findings": findings}))
    else:
        _print(findings)
    return _exit_code(findings)


def _broken(found: FoundApp) -> Finding:
    from onward.core.upkeep.health import app_broken

    assert found.broken is not None  # noqa: S101 - for the type checker
    return app_broken(found.name, found.broken)


def _placed(finding: Finding, name: str | None, app: str | None, url: str | None) -> Finding:
    """Return the finding with the current app and database put into the command that fixes it."""
    from msgspec.structs import replace

    from onward.core.upkeep.diagnosis import quoted

    remedy = finding.remedy or ""
    where = "" if url is None else f" --url {quoted(masked(url))}"
    if _PLACE.match(remedy):
        # Only the placeholder APP after the command, not a queue or job type that has this name.
        remedy = _PLACE.sub(lambda place: f"{place[1]} {quoted(name or 'APP')}{where}", remedy)
    else:
        where = place_options(app, url)
        # Before the arguments: after a double dash an option would be read as an argument.
        remedy = _COMMAND.sub(lambda words: f"{words[0]}{where}", remedy)
    return replace(finding, remedy=remedy or None)


def _named(client: Client, job_id: str | None, subject: str | None, job_type: str | None) -> list[JobId]:
    return _of_subject(client, str(subject), job_type) if job_id is None else [find_job(client, job_id)]


def _of_subject(client: Client, subject: str, job_type: str | None) -> list[JobId]:
    from onward.core.jobs.filters import JobFilter
    from onward.errors import JobNotFound

    found = client.jobs.list(JobFilter(subject=subject, job_type=job_type), limit=_MOST_JOBS)
    if not found:
        raise JobNotFound(
            f"no job of subject {subject!r:.80}; it was never enqueued here, or has been removed"
        )
    return [job.id for job in found]


def _print(findings: Sequence[Finding]) -> None:
    """Print the good findings first, so that problems are next to the prompt."""
    for finding in reversed(findings):
        title = f"{finding.code}  {finding.title}" if finding.severity == "ok" else finding.title
        remedy = f" → {finding.remedy}" if finding.remedy else ""
        code = "" if finding.severity == "ok" else f"  [{finding.code}]"
        click.echo(clean(f"{_MARKS[finding.severity]} {title}{remedy}{code}"))


def _exit_code(findings: Sequence[Finding]) -> int:
    from onward.core.upkeep.health import DATABASE_CODES

    if any(finding.code in DATABASE_CODES for finding in findings):
        return _NO_DATABASE
    return _PROBLEM if any(finding.severity == "problem" for finding in findings) else 0
