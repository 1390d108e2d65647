"""S0-85: one switch for the whole application leaves effects undone."""

from __future__ import annotations

import pytest

from onward import AuditFilter, Context, InvalidSetting, JobState, Onward
from tests.work.effects.effect_runs import Runs


@pytest.fixture
def opened(tmp_path):
    apps: list[Onward] = []

    def opened(**settings) -> Onward:
        apps.append(Onward(f"sqlite:///{tmp_path}/onward.db", **settings))
        return apps[-1]

    yield opened
    for app in apps:
        app.close()


def test_a_dry_run_calls_nothing_records_nothing_and_says_so(opened, caplog):  # S0-85
    runs = Runs(opened(dry_run=True))
    ctx = runs.start()
    assert ctx.dry_run
    with caplog.at_level("INFO", "onward.job"):
        assert ctx.once("send", pytest.fail) is None
    [record] = caplog.records
    assert (record.event, record.effect, record.job_id) == ("effect.skipped", "send", ctx.job.id)
    assert "dry run" in record.getMessage()
    assert runs.client.effects.list(ctx.job.id).items == []
    [line] = runs.client.audit.list(AuditFilter(action="effect.skipped_dry_run"))
    assert (line.job_id, line.attempt, line.detail) == (ctx.job.id, 1, {"effect": "send"})


def test_a_step_of_a_dry_run_is_computed_and_not_remembered(opened):
    runs = Runs(opened(dry_run=True))
    ctx = runs.start()
    assert ctx.step("receipt", lambda: {"of": ctx.once("charge", pytest.fail)}) == {"of": None}
    assert runs.client.effects.list(ctx.job.id).items == []
    real = Runs(opened()).retry(ctx)
    assert real.step("receipt", lambda: {"of": real.once("charge", lambda: 5)}) == {"of": 5}
    assert runs.retry(real).step("receipt", pytest.fail) == {"of": 5}


def test_a_job_of_a_dry_run_succeeds(opened):
    app = opened(dry_run=True)

    @app.job
    async def send(ctx: Context) -> list[object]:
        return [ctx.dry_run, await ctx.aonce("send", pytest.fail)]

    handle = send.enqueue()
    app.tick()
    assert handle.refresh().state == JobState.SUCCEEDED
    assert handle.result() == [True, None]


@pytest.mark.parametrize(
    ("said", "given", "dry"),
    [
        (None, None, False),
        ("1", None, True),
        (" TRUE ", None, True),
        ("0", None, False),
        ("", None, False),
        ("1", False, False),
        ("0", True, True),
    ],
)
def test_the_environment_decides_where_the_application_does_not(
    monkeypatch, opened, said, given, dry
):  # S0-85
    monkeypatch.delenv("ONWARD_DRY_RUN", raising=False)
    if said is not None:
        monkeypatch.setenv("ONWARD_DRY_RUN", said)
    assert opened(dry_run=given).policies.settings.dry_run is dry


def test_a_switch_that_says_neither_is_refused(monkeypatch, opened):
    monkeypatch.setenv("ONWARD_DRY_RUN", "maybe")
    with pytest.raises(InvalidSetting, match="ONWARD_DRY_RUN is 'maybe'; give 1 or 0"):
        opened()
    with pytest.raises(InvalidSetting, match="dry_run is 'no'; give True or False"):
        opened(dry_run="no")
