"""S0-86: what becomes of an effect is logged, with fields from which an application makes its own names."""

from __future__ import annotations

import logging

import pytest

from tests.work.effects.test_once import Broken, fail

# S0's names, by the events of Onward's own.
NAMES = {"effect.done": "sent", "effect.skipped": "skipped", "effect.failed": "error"}


class Named(logging.Formatter):
    """R21: an application's names for events."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.__dict__['effect']}:{NAMES[record.__dict__['event']]}"


def test_a_formatter_makes_sent_skipped_and_error_of_the_events_of_an_effect(runs, caplog):  # S0-86, R21
    ctx = runs.start()
    with caplog.at_level("INFO", "onward.job"):
        with pytest.raises(Broken):
            ctx.once("email", fail)
        again = runs.retry(ctx)
        again.once("email", lambda: None)
        again.once("email", fail)
    assert [Named().format(record) for record in caplog.records] == [
        "email:error",
        "email:sent",
        "email:skipped",
    ]
    assert {(record.job_id, record.job_type) for record in caplog.records} == {(ctx.job.id, "t")}
    assert [record.attempt for record in caplog.records] == [1, 2, 2]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "INFO"]


def test_no_secret_of_the_payload_is_in_the_log(runs, caplog):
    ctx = runs.start(payload={"note": "x"})
    with caplog.at_level("INFO", "onward.job"):
        ctx.once("mail password=hunter2hunter2", lambda: None)
    assert "hunter2" not in f"{caplog.records[0].__dict__}"
