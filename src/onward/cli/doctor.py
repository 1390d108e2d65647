"""`onward doctor`: tells why a queue is stuck, or why one job has not run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from onward.cli.lines import clean, shown_json
from onward.cli.operating import AS_JSON, PLACE, given, open_client

if TYPE_CHECKING:
    from onward.client import Client
    from onward.core.diagnosis import Finding
    from onward.core.ids import JobId

__all__ = ["command"]

_MARKS = {"ok": "✓", "warning": "!", "problem": "✗"}
_PROBLEM, _NO_DATABASE = 1, 5
_MOST_JOBS = 10


@click.command("doctor")
@click.argument("job_id", required=False)
@click.option("--subject", metavar="SUBJECT", help="The jobs of this subject, such as booking:42.")
@click.option("--job-type", metavar="TYPE", help="With --subject: only those of this type.")
@click.option("--deep", is_flag=True, help="Look for damage too; reads all of a SQLite file.")
@given(*AS_JSON, *PLACE)
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
    """Say why jobs do not run, or why one JOB_ID does not; each finding with the command that mends it.

    Ends with 1 if something is a problem, with 5 if the database can't be asked.
    """
    if sum((job_id is not None, subject is not None)) > 1 or (job_type and subject is None):
        raise click.UsageError("give a JOB_ID, or --subject and perhaps --job-type")
    with open_client(app, url) as client:
        if job_id is None and subject is None:
            findings = client.doctor.check(deep=deep)
        else:
            asked = [job_id] if job_id is not None else _of_subject(client, str(subject), job_type)
            findings = [finding for one in asked for finding in client.doctor.explain(one)]
    if as_json:
        click.echo(shown_json(_plain(findings)))
    else:
        _print(findings, app or os.environ.get("ONWARD_APP"))
    return _exit_code(findings)


def _of_subject(client: Client, subject: str, job_type: str | None) -> list[JobId]:
    from onward.core.filters import JobFilter
    from onward.errors import JobNotFound

    found = client.list_jobs(JobFilter(subject=subject, job_type=job_type), limit=_MOST_JOBS).jobs
    if not found:
        raise JobNotFound(
            f"no job of subject {subject!r:.80}; it was never enqueued here, or has been removed"
        )
    return [job.id for job in found]


def _print(findings: Sequence[Finding], app: str | None) -> None:
    """Print what is well first: what is wrong then stands right above the prompt."""
    for finding in reversed(findings):
        title = f"{finding.code}  {finding.title}" if finding.severity == "ok" else finding.title
        remedy = finding.remedy or ""
        if app is not None:
            remedy = remedy.replace(" APP", f" {app}")
        code = "" if finding.severity == "ok" else f"  [{finding.code}]"
        click.echo(clean(f"{_MARKS[finding.severity]} {title}{f' → {remedy}' if remedy else ''}{code}"))


def _plain(findings: Sequence[Finding]) -> dict[str, object]:
    from msgspec.structs import asdict

    problems = sum(finding.severity == "problem" for finding in findings)
    return {"ok": not problems, "findings": [asdict(finding) for finding in findings]}


def _exit_code(findings: Sequence[Finding]) -> int:
    from onward.core.health import DATABASE_CODES

    if any(finding.code in DATABASE_CODES for finding in findings):
        return _NO_DATABASE
    return _PROBLEM if any(finding.severity == "problem" for finding in findings) else 0
