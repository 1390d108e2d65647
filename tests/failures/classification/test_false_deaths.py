"""What only looks like a refusal must not end a job: it would be lost for nothing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import requests

from onward import RateLimited, RetryPolicy
from onward.core.failures.classify import describe, judge
from onward.core.failures.verdict import Verdict
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import settle
from tests.work.rules.test_lifecycle import CLAIMED

POLICY = RetryPolicy(kind="fixed", base=timedelta(seconds=7), jitter=False)


@contextmanager
def server(reply: bytes) -> Iterator[str]:
    """Answer each connection with these bytes, whatever they are."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


async def aiohttp_error(url: str, **options: Any) -> BaseException:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientResponseError) as caught:
            async with session.get(url, **options) as response:
                await response.read()
    return caught.value


@pytest.mark.anyio
@pytest.mark.parametrize(
    "reply",
    [
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\nabc",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    ],
)
async def test_an_answer_that_aiohttp_can_not_read_is_no_refusal_of_the_provider(reply):
    with server(reply) as url:
        error = await aiohttp_error(url)
    assert getattr(error, "status", None) == 400, "which nobody has answered"
    assert judge(error) == Verdict("connection", "retry")


@pytest.mark.anyio
async def test_what_a_proxy_refuses_was_not_refused_by_the_provider():
    with server(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n") as proxy:
        error = await aiohttp_error("https://provider.invalid", proxy=proxy)
    assert judge(error) == Verdict("connection", "retry")


def test_a_connection_that_requests_was_refused_is_no_time_out():
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(requests.ConnectionError) as caught:
        requests.get(f"http://127.0.0.1:{port}", timeout=5)
    assert judge(caught.value).rule == "connection"


@pytest.mark.parametrize(
    "attributes",
    [
        {"status": 400},
        {"status_code": 400},
        {"code": "404"},
        {"status": 400, "headers": ["name", "price"]},
        {"status": 400, "headers": "name;price"},
        {"response": SimpleNamespace(status=400)},
        {"response": {"status_code": 400}},
        {"response": "400"},
    ],
)
def test_an_error_of_the_application_that_has_a_status_is_no_answer_of_a_provider(attributes):
    error = ValueError("an order")
    for name, value in attributes.items():
        setattr(error, name, value)
    assert judge(error) == Verdict("unclassified", "retry")


def test_an_error_with_a_description_of_its_own_is_shown_as_what_it_is():
    error = ValueError("an order")
    error.described = {"colour": "red", "error_class": "Order"}  # type: ignore[attr-defined]
    assert describe(error) == ErrorRecord("ValueError", "an order")


def chain(length: int) -> BaseException:
    error: BaseException | None = None
    for number in range(length):
        try:
            raise ValueError(number) from error  # noqa: TRY301 - a traceback of its own
        except ValueError as raised:
            error = raised
    assert error is not None
    return error


def test_of_an_endless_chain_only_the_last_error_is_shown():
    assert describe(chain(3)).traceback.count("direct cause") == 2
    shown = str(describe(chain(20_000)).traceback)
    assert "direct cause" not in shown
    assert shown.endswith("ValueError: 19999\n")


@pytest.mark.parametrize("after", [-5, 0, timedelta(days=-400)])
@pytest.mark.parametrize("counted", [True, False])
def test_a_rate_limit_that_is_over_already_waits_by_the_back_off(after, counted):
    # Else a hundred waits would be used up within a second, and the job dead.
    assert settle(CLAIMED, RateLimited(after, counted=counted), POLICY).delay == POLICY.base
