"""A job type that spills its secret in a child process, in each of the ways of `spill`."""

from __future__ import annotations

import logging

from onward import Cancelled, Context, Onward, RateLimited, Retry, Skip, Unrecoverable

__all__ = ["WAYS", "app", "in_a_process", "spill"]

app = Onward(secrets="allow", secrets_reason="to see what becomes of them")


def _raised(secret: str) -> None:
    raise ValueError(f"can't log in with {secret}")


def _repr(secret: str) -> None:
    raise KeyError({"auth": (secret, f"x{secret}x")})


def _nested(secret: str) -> None:
    try:
        _raised(secret)
    except ValueError as error:
        again = RuntimeError("while it was handled")
        again.__cause__, again.__context__ = error, KeyError(secret)
        raise OSError(5, secret) from again


def _group(secret: str) -> None:
    raise ExceptionGroup(f"all of {secret}", [ValueError(secret), ExceptionGroup("more", [KeyError(secret)])])


def _noted(secret: str) -> None:
    error = ValueError("no")
    error.add_note(f"it was {secret}")
    raise error


def _hinted(secret: str) -> None:
    raise Unrecoverable(f"no: {secret}", hint=f"renew {secret}", link=f"https://x.org/?id={secret}")


def _again(secret: str) -> None:
    raise Retry(f"again, {secret}", after=0)


def _limited(secret: str) -> None:
    raise RateLimited(after=0, error=ValueError(secret), counted=True)


def _limited_by(secret: str) -> None:
    raise RateLimited(after=0, error={"error_class": "E", "about": [{"said": secret}]}, counted=True)


def _cut(secret: str) -> None:
    raise ValueError("x" * (10_000 - len(secret) // 2) + secret)


def _skipped(secret: str) -> None:
    raise Skip(f"no need for {secret}")


def _cancelled(secret: str) -> None:
    raise Cancelled(f"gave up {secret}")


WAYS = {
    way.__name__.removeprefix("_"): way
    for way in (
        _raised, _repr, _nested, _group, _noted, _hinted, _again, _limited, _limited_by, _cut, _skipped,
        _cancelled,
    )
}  # fmt: skip


def spill(ctx: Context, way: str, secret: str) -> None:
    """Log the secret in every way, then end by raising it."""
    log = ctx.log
    log.warning("plain %s", secret)
    log.error("in a dict %r", {"a": secret})
    log.warning("wrong number of arguments %s %s", secret)  # noqa: PLE1206 - on purpose
    log.warning("extra", extra={"password": secret, "said": secret})
    try:
        _nested(secret)
    except OSError:
        log.exception("with a traceback", stack_info=True)
    logging.getLogger("onward.worker").warning("password=%r", secret)
    WAYS[way](secret)


@app.job(executor="process", max_attempts=2)
def in_a_process(ctx: Context, way: str, secret: str) -> None:
    """Spill in a child."""
    spill(ctx, way, secret)
