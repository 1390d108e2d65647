"""A line stays one line, shows no secret, and says times as people do."""

import io
import logging
import sysconfig
from datetime import timedelta

import pytest

from onward.cli.log_setup import set_up_logs
from onward.cli.views.text import masked, short
from onward.core.inputs.duration import lasting
from onward.core.inputs.plain_text import one_line as clean
from onward.logs import get_logger
from onward.origin import running
from tests.work.rules.test_lifecycle import job as job_of


# A23
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("two\r\nlines\tand more", "two lines and more"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07", "red ]0;title"),
        ("bell\x07 null\x00 c1\x9b2J", "bell null c12J"),
        ("turned \u202eback\u2069", "turned back"),
        ("marked \u061cas Arabic\u200e", "marked as Arabic"),
        ("next\x85line\u2028and\u2029more", "next line and more"),
        ("lone \ud800 surrogate", "lone  surrogate"),
        ("naïve ✓ 漢字", "naïve ✓ 漢字"),
    ],
)
def test_nothing_from_outside_breaks_a_line_or_controls_the_terminal(text, line):
    assert clean(text) == line


def test_a_long_text_is_cut():
    assert clean("x" * 50, 10) == "xxxxxxxxx…"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://app:s3cret@db/app", "postgresql://app@db/app"),
        ("postgresql://app:a@s3/cret?x@db:5432/app?sslmode=require", "postgresql://app@db:5432/app"),
        ("postgresql://db/app?password=s3cret", "postgresql://db/app"),
        ("postgresql://app@db/app", "postgresql://app@db/app"),
    ],
)
def test_a_url_is_shown_without_its_password(url, shown):
    assert masked(url) == shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.184, "184 ms"),
        (5, "5s"),
        (4.13, "4.1s"),
        (60, "1m"),
        (450, "7m 30s"),
        (27_660, "7h 41m"),
        (259_200, "3d"),
    ],
)
def test_a_length_of_time_is_told_as_people_say_it(seconds, text):
    assert lasting(timedelta(seconds=seconds)) == text


def test_an_id_is_whole_where_a_program_may_read_it():
    job_id = "019a8c00-0000-7000-8000-0000000009k2"

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert short(job_id, stream=Terminal()) == "019a8c…9k2"
    assert short(job_id, stream=io.StringIO()) == job_id


@pytest.fixture
def fresh_logs(monkeypatch):
    """Make the root logger new; called within the test, since pytest listens from its start."""
    root = logging.getLogger()
    level = root.level

    def clear() -> logging.Logger:
        monkeypatch.setattr(root, "handlers", [])
        return root

    yield clear
    root.setLevel(level)


def fail_order(level: int) -> None:
    try:
        int("bad\nvalue")
    except ValueError:
        logging.getLogger("shop").log(level, "order\r\n\x1b[2Jfailed", exc_info=True)


def test_a_warning_is_one_line_with_its_error_and_the_place_in_the_code(fresh_logs, capsys):
    root = fresh_logs()
    set_up_logs("info")
    fail_order(logging.WARNING)
    fail_order(logging.DEBUG)
    [line] = capsys.readouterr().err.splitlines()
    assert " warning shop: order failed (ValueError: invalid literal for int() with base 10: " in line
    assert "test_cli_text.py:" in line
    set_up_logs("debug")
    assert len(root.handlers) == 1, "an app that has set up its logs keeps them"


@pytest.mark.parametrize(
    ("asked", "level"),
    [
        ({"level": "info"}, logging.ERROR),
        ({"level": "debug"}, logging.WARNING),
        ({"level": "info", "tracebacks": True}, logging.WARNING),
    ],
    ids=["an error", "at level debug", "in dev"],
)
def test_a_traceback_follows_its_line_indented_and_without_control_characters(
    fresh_logs, capsys, asked, level
):
    fresh_logs()
    set_up_logs(**asked)
    fail_order(level)
    line, heading, *trace = capsys.readouterr().err.splitlines()
    assert line.endswith(" shop: order failed")
    assert heading == "    Traceback (most recent call last):"
    assert all(part.startswith("    ") and "\x1b" not in part for part in trace)
    assert trace[-1] == "    ValueError: invalid literal for int() with base 10: 'bad\\nvalue'"


def test_a_line_within_a_job_names_its_type_and_id(fresh_logs, capsys):
    fresh_logs()
    set_up_logs("info")
    job = job_of(id="019a8c00-0000-7000-8000-0000000009e2", job_type="send")
    about = {"job_id": job.id, "job_type": job.job_type}
    get_logger("onward.job").info("effect 'mail' done", extra=about)
    get_logger("onward.job").warning("send %s attempt 1/5 → ready again", job.id, extra=about)
    with running(job):
        logging.getLogger("shop.mail").info("to %s", "ada")
    logging.getLogger("shop.mail").info("of no job")
    assert [line.partition(" ")[2] for line in capsys.readouterr().err.splitlines()] == [
        f"info onward.job: send {job.id}: effect 'mail' done",
        f"warning onward.job: send {job.id} attempt 1/5 → ready again",
        f"info shop.mail: send {job.id}: to ada",
        "info shop.mail: of no job",
    ]


def test_installed_libraries_only_warn_unless_all_is_asked_for(fresh_logs, capsys):
    def tell(name: str, level: int, path: str) -> None:
        record = logging.LogRecord(name, level, path, 1, f"from {name} at {level}", None, None)
        logging.getLogger(name).handle(record)

    library = f"{sysconfig.get_path('purelib')}/httpx/_client.py"
    for asked, told in (("info", 4), ("debug", 5)):
        fresh_logs()
        set_up_logs(asked, "shop.jobs:app")
        tell("httpx", logging.INFO, library)
        tell("httpx", logging.WARNING, library)
        tell("onward.worker", logging.INFO, f"{sysconfig.get_path('purelib')}/onward/worker.py")
        tell("shop.mail", logging.INFO, f"{sysconfig.get_path('purelib')}/shop/mail.py")
        tell("mine", logging.INFO, __file__)
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == told
        assert any("from httpx at 20" in line for line in lines) == (asked == "debug")
