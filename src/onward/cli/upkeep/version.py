"""`onward version`: print the installed versions."""

from __future__ import annotations

import platform

import click


@click.command("version")
def command() -> None:
    """Print the versions of Onward and Python."""
    from onward import __version__

    click.echo(f"onward {__version__} (Python {platform.python_version()})")
