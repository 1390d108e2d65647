"""Which cron expressions are read, what they mean in words, and what is said of those that are refused."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.schedules.cron import Cron
from onward.errors import InvalidSetting

_NEW_YEAR = datetime(2026, 1, 1)  # noqa: DTZ001 - local time of no zone


@pytest.mark.parametrize(
    ("alias", "fields"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
def test_an_alias_is_shown_as_it_was_given_and_means_its_fields(alias: str, fields: str) -> None:
    cron = Cron.of(f" {alias.upper()} ")
    assert (cron.text, cron.fields) == (alias, fields)
    assert cron.after(_NEW_YEAR) == Cron.of(fields).after(_NEW_YEAR)


def test_the_second_is_the_first_of_six_fields() -> None:
    assert Cron.of("30 0 2 * * *").after(_NEW_YEAR) == _NEW_YEAR.replace(hour=2, second=30)
    assert Cron.of("30 2 * * *").after(_NEW_YEAR) == _NEW_YEAR.replace(hour=2, minute=30)


def test_spaces_do_not_matter() -> None:
    assert Cron.of("  0   2 *\t* * ") == Cron.of("0 2 * * *")


@pytest.mark.parametrize("cron", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 0 30 FEB *", "0 0 */40 * 1#2"])
def test_an_expression_that_never_fires_is_refused(cron: str) -> None:
    with pytest.raises(InvalidSetting, match=r"never fires.*give L"):
        Cron.of(cron)


@pytest.mark.parametrize("cron", ["0 0 29 2 *", "0 0 29 2 1#5", "0 0 * 2 1#5", "0 0 30 2 MON", "0 0 31 * *"])
def test_an_expression_that_fires_rarely_is_taken(cron: str) -> None:
    assert Cron.of(cron).after(_NEW_YEAR) > _NEW_YEAR


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("60 * * * *", "minute is '60'; give 0 to 59"),
        ("0 24 * * *", "hour is '24'; give 0 to 23"),
        ("0 0 0 * *", "day of month is '0'; give 1 to 31"),
        ("0 0 * 13 *", "month is '13'; give 1 to 12"),
        ("0 0 * * 8", "day of week is '8'"),
        ("61 0 0 * * *", "second is '61'"),
        ("*/0 * * * *", r"minute is '\*/0'"),
        ("0 0 * * SAT-SUN", "a range goes from the lower to the higher"),
        ("0 0 * *", "4 fields; give five"),
        ("0 0 * * * * *", "7 fields; give five"),
        ("@reboot", "on_start"),
        ("@every 5m", "every='5m'"),
        ("@dayly", "@hourly, @daily"),
        ("", "give an expression such as"),
        (None, "give an expression such as"),
        (5, "give an expression such as"),
        ("\u0660 2 * * *", "all of ASCII"),
        ("0," * 200 + "0 * * * *", "at most 200 characters"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_to_give(cron: Any, said: str) -> None:
    with pytest.raises(InvalidSetting, match=said):
        Cron.of(cron)


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("0 2 * * *", "At 02:00 every day"),
        ("*/5 * * * *", "Every fifth minute of every hour"),
        ("0 9 * * MON-FRI", "At 09:00 on Monday through Friday"),
        ("15 30 8 1 * *", "At 08:30:15 on the first day of every month"),
        ("@hourly", "At the start of every hour"),
    ],
)
def test_an_expression_is_said_in_words(cron: str, words: str) -> None:
    assert Cron.of(cron).in_words() == words


@given(st.text("0123456789*/,-#LWMONFEB ", max_size=30))
def test_whatever_is_typed_is_either_refused_or_fires_and_has_words(text: str) -> None:
    try:
        cron = Cron.of(text)
    except InvalidSetting:
        return
    assert cron.after(_NEW_YEAR) > _NEW_YEAR
    assert cron.in_words()


_ANY_FIELD = st.lists(
    st.from_regex(r"(\*|[0-9]{1,2}(-[0-9]{1,2})?|L|LW|MON|[0-7]L|[0-7]#[1-5])(/[1-9])?", fullmatch=True),
    min_size=1,
    max_size=3,
).map(",".join)


@given(st.lists(_ANY_FIELD, min_size=5, max_size=6).map(" ".join))
def test_whatever_looks_like_a_cron_is_either_refused_or_fires_and_has_words(text: str) -> None:
    try:
        cron = Cron.of(text)
    except InvalidSetting:
        return
    assert cron.after(_NEW_YEAR) > _NEW_YEAR
    assert cron.in_words()
