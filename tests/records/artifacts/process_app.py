"""Job types that leave and open artifacts in a process of their own."""

from __future__ import annotations

from onward import Context, Onward

__all__ = ["app", "copy"]

app = Onward()


@app.job(executor="process")
def copy(ctx: Context, source: str) -> str:
    """Leave a copy of an artifact, and a note on it."""
    with ctx.open_artifact(source) as file:
        made = ctx.artifact("copy.bin", file)
    ctx.artifact("note.txt", text="done")
    return made.ref
