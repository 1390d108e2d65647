"""A forgotten await must not look like a success."""

from __future__ import annotations

import pytest

from onward import Context, JobState

pytestmark = pytest.mark.anyio


async def test_a_handler_that_returns_what_nobody_awaited_has_not_succeeded(app):
    @app.job
    async def forgetful(ctx: Context) -> object:
        return ctx.aonce("mail", lambda: None)

    @app.job
    def in_a_thread(ctx: Context) -> object:
        return ctx.aonce("mail", lambda: None)

    handles = [await forgetful.aenqueue(), await in_a_thread.aenqueue()]
    await app.worker(drain=True).run()
    for handle in handles:
        job = await handle.arefresh()
        assert job.state == JobState.DEAD
        assert job.error is not None
        assert job.error.rule == "not_awaited"
        assert "return await" in job.error.message
    await app.aclose()
