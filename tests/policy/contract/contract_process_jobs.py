"""Job types of a strict application whose handlers run in child processes."""

from onward import Context, Onward

app = Onward(profile="strict")
process = app.job(executor="process")


@process
def parent() -> None:
    """Enqueue another job by its own way."""
    child.enqueue()


@process
def child() -> None:
    """Do nothing."""


@process(category="audit_enrichment")
def enrich() -> None:
    """Try what its category may not."""
    child.enqueue()


@process(category="planning")
def plan(ctx: Context, *, leave: bool) -> None:
    """Leave an artifact, or forget it."""
    if leave:
        ctx.artifact("plan.txt", text="do it")
