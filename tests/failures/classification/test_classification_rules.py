"""Which rule knows which error, by itself, as a cause, on hand and in a group."""

from __future__ import annotations

import errno
import http.client
import socket
import sqlite3
import ssl
import urllib.error
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.message import Message
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import django.core.exceptions
import django.db.utils
import httpx
import httpx2
import msgspec
import psycopg
import pytest
import requests
import sqlalchemy

from onward import NotAllowed, RateLimited, Retry, RuleBroken, Skip, Snooze, Unrecoverable
from onward.core.failures.classify import classify, judge
from onward.core.failures.http_response import retry_after
from onward.core.failures.known_errors import RULE_NAMES
from onward.core.failures.verdict import HINTS, Verdict
from onward.core.secrets.redaction import redact_text
from onward.core.work.lifecycle import Failed
from onward.errors import InvalidArguments, StorageFull, StoreBusy, StoreUnreachable

NOW = datetime(2026, 1, 2, 10, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def answered(status: int, text: str = "", **headers: str) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://provider.example/")
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx.Response(status, headers=names, text=text, request=request)
    return httpx.HTTPStatusError(f"answered {status}", request=request, response=response)


def made(about: dict[str, Any]) -> BaseException:
    """One that is no class of a client."""
    error: BaseException = type("SdkError", (Exception,), about)()
    return error


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def on_hand(error: BaseException, other: BaseException) -> BaseException:
    error.__context__ = other
    return error


class PydanticError(ValueError):
    """As pydantic's own is named, which is not installed here."""


PydanticError.__name__ = "ValidationError"
PydanticError.__module__ = "pydantic_core._pydantic_core"


class Conflict(RuleBroken): ...


NEVER: list[tuple[str, BaseException]] = [
    # S4-37: validation.
    ("invalid_job", InvalidArguments("no such argument")),
    ("validation", msgspec.ValidationError("Expected `int`")),
    ("validation", PydanticError("1 validation error")),
    ("validation", django.core.exceptions.ValidationError("no address")),
    # S4-38: ownership.
    ("not_allowed", NotAllowed("another org's")),
    ("not_allowed", PermissionError("not yours")),
    ("not_allowed", django.core.exceptions.PermissionDenied()),
    # S4-39: rules of the business.
    ("business_rule", RuleBroken("the booking is cancelled")),
    ("business_rule", Conflict("paid already")),
    ("missing_scopes", ValueError('{"category":"MISSING_SCOPES"}')),
    ("raised_unrecoverable", Unrecoverable("no")),
]

PASSING: list[tuple[str, BaseException]] = [
    ("unclassified", ValueError("x")),
    ("unclassified", KeyboardInterrupt()),
    ("unclassified", PermissionError(13, "Permission denied", "/etc/shadow")),
    ("unclassified", sqlite3.OperationalError("no such table: t")),
    ("raised_retry", Retry("again")),
    # S4-40: time-outs of the network.
    ("timeout", TimeoutError()),
    ("timeout", httpx.ReadTimeout("")),
    ("timeout", httpx2.ConnectTimeout("")),
    ("timeout", requests.ReadTimeout()),
    ("timeout", requests.ConnectTimeout()),
    ("timeout", aiohttp.ServerTimeoutError()),
    ("connection", ConnectionResetError()),
    ("connection", BrokenPipeError()),
    ("connection", OSError(errno.EHOSTUNREACH, "No route to host")),
    ("connection", socket.gaierror(-2, "Name or service not known")),
    ("connection", ssl.SSLError(1, "wrong version number")),
    ("connection", http.client.IncompleteRead(b"")),
    ("connection", httpx.ConnectError("")),
    ("connection", httpx.RemoteProtocolError("")),
    ("connection", httpx2.ReadError("")),
    ("connection", requests.ConnectionError()),
    ("connection", requests.exceptions.ChunkedEncodingError()),
    ("connection", aiohttp.ServerDisconnectedError()),
    ("connection", aiohttp.ClientPayloadError()),
    ("connection", urllib.error.URLError(ConnectionRefusedError())),
    ("database_lost", psycopg.OperationalError("connection failed")),
    ("database_lost", asyncpg.InterfaceError("connection is closed")),
    ("database_conflict", asyncpg.DeadlockDetectedError("deadlock detected")),
    ("database_lost", asyncpg.ConnectionDoesNotExistError("closed")),
    ("database_lost", StoreUnreachable("no")),
    ("database_locked", StoreBusy("no")),
    ("database_full", StorageFull("no")),
    ("http_other", answered(302)),
    ("http_4xx", answered(402)),
    ("http_5xx", answered(599)),
]


def shown(cases: list[tuple[str, BaseException]]) -> list[str]:
    return [f"{rule}-{type(error).__name__}" for rule, error in cases]


@pytest.mark.parametrize(("rule", "error"), NEVER, ids=shown(NEVER))
def test_what_can_not_pass_is_never_tried_again(rule, error):
    # S4-37, S4-38, S4-39
    outcome = classify(error)
    assert isinstance(outcome, Failed)
    assert not outcome.retryable
    assert outcome.error.rule == rule


@pytest.mark.parametrize(("rule", "error"), PASSING, ids=shown(PASSING))
def test_what_may_pass_is_tried_again(rule, error):
    # S4-40
    outcome = classify(error)
    assert isinstance(outcome, Failed)
    assert outcome.retryable
    assert outcome.error.rule == rule


def test_every_rule_has_a_name_that_is_kept_from_others():
    rules = {rule for rule, _ in [*NEVER, *PASSING]}
    assert rules <= RULE_NAMES
    assert {judge(answered(status)).rule for status in range(300, 600)} <= RULE_NAMES


@pytest.mark.parametrize("status", [400, 401, 403, 405, 406, 410, 411, 413, 414, 415, 422])
def test_a_request_that_would_get_the_same_answer_is_not_made_again(status):
    # S3-22
    assert judge(answered(status)).kind == "unrecoverable"


def test_a_hint_is_shown_as_it_is():
    assert {rule: redact_text(hint) for rule, hint in HINTS.items()} == HINTS


@pytest.mark.parametrize(
    ("text", "date", "wait"),
    [
        ("120", None, 120),
        (" 7 ", None, 7),
        ("1.5", None, 1.5),
        ("0", None, 1),
        ("99999999999999999999", None, 86_400),
        ("1" * 30, None, None),
        ("-5", None, None),
        ("1e9", None, None),
        ("inf", None, None),
        ("soon", None, None),
        ("", None, None),
        ("٣", None, None),
        ("Fri, 02 Jan 2026 10:00:30 GMT", None, 30),
        ("Fri, 02 Jan 2026 10:00:30 -0000", None, 30),
        ("Fri, 02 Jan 2026 12:00:30 +0200", None, 30),
        ("Friday, 02-Jan-26 10:00:30 GMT", None, 30),
        ("Fri, 02 Jan 2026 09:59:00 GMT", None, None),
        ("Fri, 02 Jan 9999 10:00:00 GMT", None, 86_400),
        ("Fri, 99 Jan 2026 10:00:00 GMT", None, None),
        # The server's clock is an hour ahead of ours; it says itself what time it has.
        ("Fri, 02 Jan 2026 11:00:30 GMT", "Fri, 02 Jan 2026 11:00:00 GMT", 30),
        ("Fri, 02 Jan 2026 11:00:30 GMT", "rubbish", 3630),
    ],
)
def test_a_wait_that_a_provider_asks_for_is_bounded_and_nonsense_is_none(text, date, wait):
    # S4-41
    assert retry_after(text, date, NOW) == (None if wait is None else wait * SECOND)


def test_a_date_is_nothing_without_a_clock():
    assert retry_after("Fri, 02 Jan 2026 10:00:30 GMT", None, None) is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (answered(429, retry_after="9"), Verdict("http_429", "rate_limited", 9 * SECOND, 429)),
        (answered(503, retry_after="9"), Verdict("http_5xx", "retry", 9 * SECOND, 503)),
        (answered(401, retry_after="9"), Verdict("http_401", "unrecoverable", status=401)),
        (answered(400, "MISSING_SCOPES"), Verdict("missing_scopes", "unrecoverable", status=400)),
        (
            answered(500, '{"e": "RATELIMIT_EXCEEDED"}', retry_after="3"),
            Verdict("ratelimit_exceeded", "rate_limited", 3 * SECOND, 500),
        ),
        (ValueError("RATELIMIT_EXCEEDED"), Verdict("ratelimit_exceeded", "rate_limited")),
        # Not of a client, but it carries an answer.
        (made({"response": answered(429).response}), Verdict("http_429", "rate_limited", status=429)),
        (made({"status": 403, "headers": {}}), Verdict("http_403", "unrecoverable", status=403)),
        (
            made({"status": 403, "headers": {}, "body": "MISSING_SCOPES"}),
            Verdict("missing_scopes", "unrecoverable", status=403),
        ),
        # A status alone is anybody's.
        (made({"status": 403}), Verdict("unclassified", "retry")),
        (made({"status": "paid", "headers": {}}), Verdict("unclassified", "retry")),
    ],
)  # fmt: skip
def test_an_answer_is_read_off_the_error(error, expected):
    assert judge(error, now=NOW) == expected


def test_the_errors_of_all_clients_carry_their_answer():
    headers = Message()
    headers["Retry-After"] = "9"
    response = requests.Response()
    response.status_code = 429
    response.headers["Retry-After"] = "9"
    request = httpx2.Request("GET", "http://provider.example/")
    answer = httpx2.Response(429, headers={"Retry-After": "9"}, request=request)
    info: Any = None
    errors = [
        answered(429, retry_after="9"),
        httpx2.HTTPStatusError("", request=request, response=answer),
        requests.HTTPError(response=response),
        aiohttp.ClientResponseError(info, (), status=429, headers={"Retry-After": "9"}),  # type: ignore[arg-type]
        urllib.error.HTTPError("http://provider.example/", 429, "", headers, None),
    ]
    assert [judge(error) for error in errors] == 5 * [Verdict("http_429", "rate_limited", 9 * SECOND, 429)]


def test_an_answer_of_aiohttp_needs_no_headers():
    info: Any = None
    assert judge(aiohttp.ClientResponseError(info, (), status=401)).rule == "http_401"


@pytest.mark.parametrize(
    ("error", "rule", "kind"),
    [
        (caused(ValueError("sync failed"), answered(401)), "http_401", "unrecoverable"),
        (caused(ValueError(), caused(KeyError(), answered(429))), "http_429", "rate_limited"),
        (caused(RuntimeError(), Unrecoverable("no")), "raised_unrecoverable", "unrecoverable"),
        (caused(RuntimeError(), Skip("no")), "unclassified", "retry"),
        # Each rule looks at the whole chain before the next is asked.
        (caused(ConnectionError(), answered(503)), "http_5xx", "retry"),
        # Only on hand: it may make the job wait, but not end it.
        (on_hand(ValueError(), answered(429)), "http_429", "rate_limited"),
        (on_hand(ValueError(), answered(401)), "unclassified", "retry"),
        (on_hand(ValueError(), caused(KeyError(), answered(401))), "unclassified", "retry"),
        (on_hand(ValueError(), Unrecoverable("no")), "unclassified", "retry"),
        (ExceptionGroup("", [answered(401)]), "http_401", "unrecoverable"),
        (ExceptionGroup("", [ExceptionGroup("", [answered(429)])]), "http_429", "rate_limited"),
        (ExceptionGroup("", [TimeoutError(), answered(429), answered(422)]), "http_refused", "unrecoverable"),
        (ExceptionGroup("", [ValueError(), answered(429)]), "http_429", "rate_limited"),
        (ExceptionGroup("", [ValueError(), TimeoutError()]), "timeout", "retry"),
        (caused(RuntimeError(), ExceptionGroup("", [answered(401)])), "http_401", "unrecoverable"),
    ],
)  # fmt: skip
def test_an_error_is_judged_by_what_it_came_from(error, rule, kind):
    found = judge(error)
    assert (found.rule, found.kind) == (rule, kind)


def test_what_is_raised_from_none_hides_what_was_on_hand():
    error = on_hand(ValueError(), answered(429))
    error.__suppress_context__ = True
    assert judge(error).rule == "unclassified"


def test_of_a_group_of_rate_limits_the_longest_wait_counts():
    errors = [answered(429, retry_after=after) for after in ("3", "60", "10")]
    assert judge(ExceptionGroup("", errors)).after == 60 * SECOND


def test_a_group_of_one_error_is_shown_and_ends_as_that_error():
    # R11: what a task group raises is what its one failed task raised.
    group = ExceptionGroup("unhandled errors in a TaskGroup", [ValueError("boom")])
    failed = classify(group)
    assert isinstance(failed, Failed)
    assert (failed.error.error_class, failed.error.message) == ("ValueError", "boom")
    assert isinstance(classify(ExceptionGroup("", [Skip("off")])), Skip)
    assert isinstance(classify(ExceptionGroup("", [Snooze(5), Skip("off")])), Snooze)
    assert isinstance(classify(ExceptionGroup("", [Skip("off"), ValueError()])), Failed)


def test_a_rate_limit_that_was_raised_keeps_what_it_was_given():
    # R12
    given = RateLimited("90s", answered(429), counted=True)
    outcome = classify(given)
    assert isinstance(outcome, RateLimited)
    assert (outcome.after, outcome.counted) == ("90s", True)
    assert outcome.error.error_class == "HTTPStatusError"
    assert (outcome.error.rule, outcome.error.status) == ("raised_rate_limited", 429)
    bare = classify(RateLimited())
    assert (bare.after, bare.counted) == (None, None)
    assert (bare.error.error_class, bare.error.message) == ("RateLimited", "rate limited")


@pytest.mark.parametrize(
    ("sqlstate", "rule"),
    [
        ("40001", "database_conflict"),
        ("40P01", "database_conflict"),
        ("08006", "database_lost"),
        ("57P01", "database_lost"),
        ("53300", "database_full"),
        ("55P03", "database_locked"),
        ("23505", "unclassified"),
        ("42601", "unclassified"),
    ],
)
def test_an_error_of_postgresql_is_known_by_its_state(postgres_url, sqlstate, rule):
    # S4-40: raised by a real server, as psycopg, SQLAlchemy and Django give it.
    statement = f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{sqlstate}'; END $$"
    with psycopg.connect(postgres_url) as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute(statement)
    engine = sqlalchemy.create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as wrapped, pytest.raises(sqlalchemy.exc.DBAPIError) as wrapping:
        wrapped.exec_driver_sql(statement)
    engine.dispose()
    # As Django's DatabaseErrorWrapper does.
    djangos = caused(django.db.utils.OperationalError("no"), caught.value)
    assert [judge(error).rule for error in (caught.value, wrapping.value, djangos)] == 3 * [rule]


def test_a_server_that_is_not_there_is_a_lost_database():
    # S4-40
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(psycopg.OperationalError) as caught:
        psycopg.connect(f"host=127.0.0.1 port={port} dbname=x connect_timeout=5")
    assert judge(caught.value).rule == "database_lost"


def test_a_locked_file_of_sqlite_is_known(tmp_path: Path):
    # S4-40
    holder, other = (sqlite3.connect(tmp_path / "x.db", timeout=0, isolation_level=None) for _ in range(2))
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(sqlite3.OperationalError) as caught:
        other.execute("CREATE TABLE t (n)")
    holder.close()
    other.close()
    assert judge(caught.value).rule == "database_locked"


def test_a_link_that_leads_elsewhere_than_to_the_web_is_dropped():
    def link(given: str) -> object:
        return classify(Unrecoverable("x", link=given)).error.link

    assert link("https://a.example/x?y=1#z") == "https://a.example/x?y=1#z"
    for bad in ("javascript:alert(1)", "file:///etc/passwd", "https://", "https://a b", "http://a\n", "//a"):
        assert link(bad) is None


MAKERS: list[Callable[[], BaseException]] = [lambda: answered(429), lambda: Retry(after=3)]


@pytest.mark.parametrize("make", MAKERS)
def test_judging_leaves_the_error_as_it_was(make):
    error = make()
    before = dict(vars(error))
    classify(error)
    assert vars(error) == before
