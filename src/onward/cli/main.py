"""The command `onward`: find the subcommand, run it, and show every error in the same form.

This module imports only click. The module of a subcommand, and with it the drivers and the worker, is
imported when the subcommand is called, so that `onward --help` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

import click

from onward.core.inputs.plain_text import one_line as clean
from onward.errors import OnwardError, SchemaBehind, SchemaMissing

INTERRUPTED = 130

# The folder of the module that has the subcommand's name, and its help. The help is repeated here so that the
# overview can show it without importing that module.
_COMMANDS = {
    "dev": ("work", "Run a worker here, started again whenever a file changes."),
    "worker": ("work", "Run the jobs of an app."),
    "enqueue": ("jobs", "Put a job into the queue."),
    "tick": ("work", "Run what is due for a few seconds, then end."),
    "job-types": ("jobs", "List what job types are for; skip the jobs of one, and run them again."),
    "alerts": ("failures", "List, mute and try out alerts."),
    "dead": ("failures", "Look at what died; replay, discard or fix it."),
    "audit": ("records", "Read, export and verify the audit."),
    "effects": ("work", "List what a job has done once, and reset it to be done again."),
    "breakers": ("failures", "See and switch the circuit breakers of providers."),
    "limits": ("limits", "See limits of jobs that share something, and set others."),
    "queues": ("limits", "List queues, pause and resume them; orgs and job types too."),
    "schedules": ("schedules", "See what runs by the clock; run it now, pause it, resume it."),
    "gate": ("limits", "Let workers claim jobs, or have none claimed at all."),
    "doctor": ("upkeep", "Explain why jobs do not run, and what fixes it."),
    "migrate": ("upkeep", "Make or update Onward's tables."),
    "prune": ("upkeep", "Remove what was kept for its time."),
    "maintenance": ("upkeep", "See what the tables take up, and what mends it."),
    "version": ("upkeep", "Print the versions of Onward and Python."),
}


# What others call a command, and the command in full.
_MEANT = {
    **dict.fromkeys(("run", "start", "work", "consume"), "To run jobs: onward worker APP"),
    **dict.fromkeys(("retry", "requeue"), "To run dead jobs again: onward dead replay GROUP|JOB --reason …"),
    **dict.fromkeys(("jobs", "list", "ls"), "It is not on the command line yet: app.client.jobs.list()"),
    **dict.fromkeys(
        ("status", "show", "inspect", "get"), "Of one job: onward doctor ID, or app.client.jobs.get(id)"
    ),
    "cancel": "It is not on the command line yet: app.client.jobs.cancel(id, reason=…)",
}
# A command that removes something is never suggested for a word that is only like it.
_DESTRUCTIVE = {"prune"}


class _Commands(click.Group):
    """The subcommands; each is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        room, _ = _COMMANDS[cmd_name]
        command = import_module(f"onward.cli.{room}.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)  # noqa: S101 - for the type checker
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-"):
            raise click.UsageError(f'there is no command "{clean(name)}". {_hint(name, args[1:])}', ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (SchemaMissing, SchemaBehind) as error:
            from onward.cli.find_app import PLACE_KEY
            from onward.cli.views.text import place_options

            where = place_options(*ctx.meta.get(PLACE_KEY, (None, None)))
            raise type(error)(str(error).replace("onward migrate", f"onward migrate{where}")) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in _COMMANDS.items()])


def _hint(name: str, words: Sequence[str]) -> str:
    """Return what a word that is no command was most likely meant to be."""
    if name in _MEANT:
        app = next((clean(word) for word in words if not word.startswith("-")), "APP")
        return _MEANT[name].replace("APP", app)
    nearest = get_close_matches(name, _COMMANDS.keys() - _DESTRUCTIVE, 1)
    return f'Did you mean "{nearest[0]}"?' if nearest else "onward --help lists them."


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if value:
        _onward.main(["version"], prog_name="onward", standalone_mode=False)
        ctx.exit()


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version,
    help="Print the versions of Onward and Python.",
)  # fmt: skip
def _onward() -> None:
    """Onward: a durable job queue in the database you already have."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with the exit code of the command."""
    try:
        code = _onward.main(arguments, prog_name="onward", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except OnwardError as error:
        click.echo(_shown(error), err=True)
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed the pipe. Without this, Python would report the same error
        # again when it flushes the standard output at exit.
        sys.stdout = None
        code = 1
    sys.exit(code or 0)


def _shown(error: OnwardError) -> str:
    from onward.logs import hide

    first, *rest = hide(str(error)).splitlines() or [type(error).__name__]
    lines = [f"error {error.code}: {clean(first)}", *(f"  {clean(line).strip()}" for line in rest)]
    return "\n".join(lines)
