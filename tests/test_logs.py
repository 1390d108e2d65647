"""Onward's loggers hide secrets before any handler sees a record, and leave other records alone."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

import onward
from onward.core.secrets.patterns import MASK
from onward.logs import get_logger

SOURCE = Path(onward.__file__).parent


def test_every_logger_of_ours_is_made_where_secrets_are_hidden():
    made = [
        path.name for path in SOURCE.rglob("*.py") if re.search(r"getLogger\([\"']onward", path.read_text())
    ]
    assert made == []


def test_a_record_without_secrets_keeps_its_arguments_and_its_exception(caplog):
    error = ValueError("ordinary")
    get_logger("onward.job").error("job %s", 5, exc_info=error, extra={"tenant": "acme"})
    [record] = caplog.records
    assert (record.msg, record.args, record.exc_info[1]) == ("job %s", (5,), error)
    assert record.tenant == "acme"


def test_a_secret_in_a_message_an_exception_or_an_extra_is_hidden(caplog):  # S4-56, A20
    log = get_logger("onward.worker")
    error = ValueError("can't reach postgresql://ada:hunter2@db")
    extra = {"password": "hunter2", "urls": ["x://a:hunter2@b"]}
    log.error("token=%s", "hunter2", extra=extra, exc_info=error)
    [record] = caplog.records
    assert record.getMessage() == f"token={MASK}"
    assert record.exc_info is None
    assert f"ada:{MASK}@db" in record.exc_text
    assert (record.password, record.urls) == (MASK, [f"x://a:{MASK}@b"])
    assert "hunter2" not in caplog.text + repr(vars(record))


def test_a_message_that_can_not_be_put_together_does_not_show_its_arguments(caplog, capsys):
    get_logger("onward").warning("too many %s", "hunter2", "hunter2")
    assert "hunter2" not in caplog.text + "".join(capsys.readouterr())


@pytest.mark.parametrize("name", ["myapp", ""])
def test_the_loggers_of_an_application_are_its_own(name):
    assert not logging.getLogger(name).filters
