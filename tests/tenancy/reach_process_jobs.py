"""A job type whose handler runs in a child process and reaches for another org by the application."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from onward import NewJob, Onward, OnwardError

app = Onward()


@app.job(executor="process")
def tries(theirs: str) -> list[str | None]:
    """Give what came of each try, and the org of the application's client."""
    told: list[str | None] = []
    with ThreadPoolExecutor(1) as pool:
        for call in (
            lambda: app.client.enqueue(NewJob(job_type="other", org_id="bolt")),
            lambda: app.client.jobs.cancel(theirs, reason="r"),
            lambda: pool.submit(app.client.jobs.get, theirs).result(),
        ):
            try:
                call()
            except OnwardError as error:
                told.append(type(error).__name__)
    return [*told, app.client.org_id]
