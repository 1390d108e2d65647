"""An application's own classification of errors: its rules, and its hints for an operator.

A rule that fails is reported and skipped: it never affects the job.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypedDict, Unpack, get_args

from msgspec.structs import replace

from onward.core.failures.causes import Seen
from onward.core.failures.handler_errors import Retry, Unrecoverable
from onward.core.failures.known_errors import RULE_NAMES, raised
from onward.core.failures.verdict import HINTS, Kind, Verdict, is_link
from onward.core.inputs.checks import check_takes_one
from onward.core.inputs.duration import Duration, duration, written
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import RateLimited, Skip
from onward.core.work.retry import LONGEST_DELAY
from onward.errors import InvalidSetting

ErrorTypes = type[BaseException] | tuple[type[BaseException], ...]

Judged = Kind | Unrecoverable | RateLimited | Retry | Skip | None
"""What a rule function returns: a verdict, an exception that a handler could have raised, or None."""

Judge = Callable[[BaseException], Judged]

_KINDS: tuple[Kind, ...] = get_args(Kind)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,59}")
_LONGEST_PATTERN = 500
_LONGEST_HINT = 1000
_STATUSES = range(100, 600)


class RuleOptions(TypedDict, total=False):
    """The options of a rule besides its exception types, verdict and name."""

    status: int | Iterable[int] | None
    pattern: str | re.Pattern[str] | None
    after: Duration | None
    hint: str | None
    link: str | None


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule: every given condition must match, or the function `judge` decides."""

    name: str
    kind: Kind | None = None
    types: tuple[type[BaseException], ...] = ()
    statuses: Collection[int] = ()
    pattern: re.Pattern[str] | None = None
    after: timedelta | None = None
    hint: str | None = None
    link: str | None = None
    judge: Judge | None = None

    def verdict(self, seen: Seen, now: datetime | None) -> Verdict | None:
        answer = seen.answer
        if self.judge is not None:
            ruling = self._judged(self.judge(seen.error))
            return None if ruling is None else replace(ruling, status=seen.status)
        if self.types and not issubclass(type(seen.error), self.types):
            return None
        if self.statuses and seen.status not in self.statuses:
            return None
        if self.pattern is not None and not self.pattern.search(seen.text):
            return None
        kind = self.kind or "retry"
        after = self.after
        if after is None and answer is not None and kind in {"retry", "rate_limited"}:
            after = answer.wait(now)
        return Verdict(self.name, kind, after, seen.status, self.hint, self.link)

    def _judged(self, ruling: object) -> Verdict | None:
        match ruling:
            case None:
                return None
            case str() if ruling in _KINDS:
                return Verdict(self.name, ruling)
            case Skip(reason):
                return Verdict(self.name, "skip", reason=reason if isinstance(reason, str) else None)
            case BaseException():
                meant = raised(Seen(ruling, frozenset()), None)
                if meant is not None:
                    return replace(meant, rule=self.name)
        raise InvalidSetting(f"the rule {self.name} gave {ruling!r:.80}; give a verdict, or None")


class Classification:
    """The rules and hints of one application, in the order in which they were added."""

    def __init__(self) -> None:
        self._rules: list[_Rule] = []
        self._hints: dict[type | str, tuple[str, str | None]] = {}
        self.report: Callable[[str, BaseException], None] = lambda _name, _error: None
        """Called with the name and the error of a rule of the application that fails."""

    def add(
        self, errors: ErrorTypes | None, verdict: object, *, name: object, **about: Unpack[RuleOptions]
    ) -> None:
        """Add a rule; raise InvalidSetting if its options contradict each other or are out of range."""
        status, pattern, after = about.get("status"), about.get("pattern"), about.get("after")
        hint, link = about.get("hint"), about.get("link")
        kind = next((known for known in _KINDS if known == verdict), None)
        if kind is None:
            choices = ", ".join(map(repr, _KINDS))
            nameless = "" if name is not None else "; and a rule needs a name=, such as name='card'"
            about_it = "a rule" if name is None else f"rule {self._name(name)}"
            raise InvalidSetting(
                f"{about_it}: its verdict is {verdict!r:.80}; give one of {choices}{nameless}"
            )
        named = self._name(name)
        if errors is None and status is None and pattern is None:
            raise InvalidSetting(f"rule {named} is about no error; give exception types, status= or pattern=")
        if after is not None and kind not in {"retry", "rate_limited"}:
            raise InvalidSetting(
                f"rule {named}: after= is for what runs again, not for {kind!r}; leave it out"
            )
        self._rules.append(
            _Rule(
                named,
                kind,
                () if errors is None else _types(named, errors),
                () if status is None else _statuses(named, status),
                None if pattern is None else _pattern(named, pattern),
                None if after is None else _after(named, after),
                None if hint is None else _hint(f"rule {named}", hint),
                _link(f"rule {named}", link),
            )
        )

    def add_function(self, judge: Judge, name: str | None = None) -> None:
        """Add a rule that is a function of the error; without `name` it is called as the function is."""
        chosen = name or getattr(judge, "__name__", "").strip("<>")
        if inspect.iscoroutinefunction(judge):
            raise InvalidSetting(f"rule {chosen} is async; give a plain function: it only looks at an error")
        check_takes_one(f"rule {chosen}", judge, "the error")
        self._rules.append(_Rule(self._name(chosen), judge=judge))

    def add_hint(self, what: type[BaseException] | str, text: str, link: str | None = None) -> None:
        """Add a hint for an operator about an exception class, the name of such a class, or a rule."""
        is_class = isinstance(what, type) and issubclass(what, BaseException)
        if not is_class and not (isinstance(what, str) and what.strip()):
            raise InvalidSetting(
                f"a hint is about {what!r:.80}; give an exception class, its name, or a rule"
            )
        about = what if isinstance(what, str) else what.__name__
        self._hints[what] = _hint(f"the hint for {about}", text), _link(f"the hint for {about}", link)

    def verdict(self, chain: Sequence[Seen], now: datetime | None) -> Verdict | None:
        """Return the verdict of the first rule that matches an error of the chain; None if no rule does."""
        for rule in self._rules:
            for seen in chain:
                try:
                    ruling = rule.verdict(seen, now)
                except BaseException as error:  # noqa: BLE001 - a rule that fails must not hurt the job
                    self.report(rule.name, error)
                    continue
                if ruling is not None and may_say(seen, ruling):
                    return ruling
        return None

    def explain(self, verdict: Verdict, chain: Sequence[Seen]) -> Verdict:
        """Add the hint and the link for the error's class, where the verdict has none of its own."""
        if self._hints and not (verdict.hint and verdict.link):
            for kind in (kind for seen in chain if not seen.incidental for kind in type(seen.error).__mro__):
                found = self._hints.get(kind) or self._hints.get(kind.__name__)
                if found is not None:
                    return replace(verdict, hint=verdict.hint or found[0], link=verdict.link or found[1])
        return verdict

    def completed(self, error: ErrorRecord) -> ErrorRecord:
        """Return an error with the hint for its class or its rule, if it has no hint."""
        if error.hint is not None:
            return error
        for key in (error.error_class, error.rule):
            if key in self._hints:
                hint, link = self._hints[key]
                return replace(error, hint=hint, link=error.link or link)
        return replace(error, hint=HINTS.get(error.rule or ""))

    def _name(self, name: object) -> str:
        if name is None:
            raise InvalidSetting("a rule's name is None; it needs one, such as name='card'")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidSetting(
                f"a rule's name is {name!r:.80}; give up to 60 letters, digits and _ . - such as 'card'"
            )
        if name in RULE_NAMES:
            raise InvalidSetting(f"a built-in rule is named {name!r}; give this one another name")
        if any(rule.name == name for rule in self._rules):
            raise InvalidSetting(f"a rule named {name!r} is there already; give each its own name")
        return name


def may_say(seen: Seen, verdict: Verdict) -> bool:
    """Whether an error of the chain may decide: an incidental error may cause a retry, never end the job."""
    return not seen.incidental or verdict.kind in {"retry", "rate_limited"}


def _types(name: str, errors: object) -> tuple[type[BaseException], ...]:
    types = errors if isinstance(errors, tuple) else (errors,)
    for one in types:
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise InvalidSetting(f"rule {name}: {one!r:.80} is no exception class; give one, or a tuple")
    if not types:
        raise InvalidSetting(f"rule {name}: the tuple of exception classes is empty; give one or more")
    return types


def _statuses(name: str, status: int | Iterable[int]) -> frozenset[int]:
    try:
        chosen = [status] if isinstance(status, int | str) else list(status)
    except TypeError:
        chosen = [status]  # type: ignore[list-item]
    wrong = [one for one in chosen if not isinstance(one, int) or one not in _STATUSES]
    if wrong or not chosen:
        shown = wrong[0] if wrong else status
        raise InvalidSetting(f"rule {name}: status is {shown!r:.80}; give 100 to 599, or several in a list")
    return frozenset(int(one) for one in chosen)


def _pattern(name: str, pattern: object) -> re.Pattern[str]:
    text = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_PATTERN:
        raise InvalidSetting(
            f"rule {name}: pattern is {text!r:.80}; give a regular expression up to {_LONGEST_PATTERN} long"
        )
    try:
        return pattern if isinstance(pattern, re.Pattern) else re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidSetting(f"rule {name}: pattern {text!r:.80} can't be read: {error}") from None


def _after(name: str, after: Duration) -> timedelta:
    wait = duration(f"rule {name}: after", after)
    if not timedelta() <= wait <= LONGEST_DELAY:
        raise InvalidSetting(f"rule {name}: after is {written(wait)}; give 0 to 365 days")
    return wait


def _hint(what: str, text: object) -> str:
    if not isinstance(text, str) or not 0 < len(text.strip()) <= _LONGEST_HINT:
        raise InvalidSetting(f"{what}: hint is {text!r:.80}; give a text of up to {_LONGEST_HINT} characters")
    return text.strip()


def _link(what: str, link: str | None) -> str | None:
    if link is not None and not is_link(link):
        raise InvalidSetting(f"{what}: link is {link!r:.80}; give one that begins with https:// or http://")
    return link
