"""Onward's loggers: each hides the secrets of a record before any log handler sees it."""

from __future__ import annotations

import logging
from typing import Any
from weakref import WeakSet

from onward.core.failures.classify import UNREADABLE, format_error
from onward.core.secrets.redaction import REDACTION, Hide, Redaction

HIDE = "onward_hide"
"""The attribute of a record with a function from text to text that hides more than the lists do."""

TRACEBACK = "onward_traceback"
"""The attribute of a record with the traceback to show, where its exception has no such traceback itself."""

_STANDARD = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime"}
# All applications of a process share its loggers, so a logger applies the lists of all of them.
_lists: WeakSet[Redaction] = WeakSet()


def get_logger(name: str) -> logging.Logger:
    """Return a logger of Onward's, which hides secrets; loggers of other names are not changed."""
    logger = logging.getLogger(name)
    if _filter not in logger.filters:
        logger.addFilter(_filter)
    return logger


def hide_also(redaction: Redaction) -> None:
    """Hide also what this list names, as long as the list is referenced elsewhere."""
    if redaction is not REDACTION:
        _lists.add(redaction)


class _Redacting(logging.Filter):
    """Changes only records that hold a secret; all others keep their arguments and their exception."""

    def filter(self, record: logging.LogRecord) -> bool:
        own: Hide | None = record.__dict__.pop(HIDE, None)

        def hidden(text: str) -> str:
            return hide(own(text) if own is not None else text)

        shown: str | None = record.__dict__.pop(TRACEBACK, None)
        _hide_message(record, hidden)
        _hide_exception(record, hidden)
        if shown is not None:
            record.exc_text = hidden(shown)
        for name in record.__dict__.keys() - _STANDARD:
            record.__dict__[name] = _hide_extra(name, record.__dict__[name], hidden)
        return True


def _hide_message(record: logging.LogRecord, hide: Hide) -> None:
    try:
        message = record.getMessage()
        hidden = hide(message)
        if hidden == message:
            return
    except Exception:  # noqa: BLE001 - logging would print the unredacted arguments
        hidden = hide(f"{record.msg} (its arguments can't be shown in it)")
    record.msg, record.args = hidden, ()


def _hide_exception(record: logging.LogRecord, hide: Hide) -> None:
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        text = format_error(error).rstrip("\n")
        hidden = hide(text)
        if hidden != text or text == UNREADABLE or _repr_tells(error, hide):
            # Formatters use this text; a handler that reads the exception itself would show the secret.
            record.exc_text, record.exc_info = hidden, None
    if record.stack_info:
        record.stack_info = hide(record.stack_info)


def _repr_tells(error: BaseException, hide: Hide) -> bool:
    """Whether the fields of an exception hold a secret that its traceback does not show."""
    try:
        return hide(text := repr(error)) != text
    except BaseException:  # noqa: BLE001 - the handler's own methods may raise anything
        return True


def _hide_extra(name: str, value: Any, hide: Hide) -> Any:
    if isinstance(value, str):
        value = hide(value)
    for redaction in (REDACTION, *_lists):
        [value] = redaction.redact({name: value}).values()
    return value


def hide(text: str) -> str:
    """Return a text without its secrets, by the lists of all applications in this process."""
    for redaction in (REDACTION, *_lists):
        text = redaction.redact_text(text)
    return text


_filter = _Redacting()

# Code that uses these names through `logging` directly is filtered, too.
for _name in ("onward", "onward.job", "onward.worker"):
    get_logger(_name)
