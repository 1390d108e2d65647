"""A payload becomes arguments, and a call a payload, as the signature says."""

import enum
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest

from onward import Context, InvalidJob, InvalidSetting
from onward.core.jobs.payload import decode, encode
from onward.errors import InvalidArguments
from onward.handlers.signature import Signature
from tests.handlers import textual


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Line:
    name: str
    tags: tuple[str, ...] = ()
    sub: "list[Line]" = field(default_factory=list)


class Point(msgspec.Struct):
    x: int


class Extra(typing.TypedDict):
    note: str


class Refused(ValueError):
    """Tells what is wrong as pydantic's error does, which shows values in its message."""

    def errors(self) -> list[dict[str, Any]]:
        return [{"loc": ("sizes", 0), "msg": "should be a valid integer"}]


class Model:
    """Has the two methods of a pydantic model."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and other.size == self.size

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def model_validate(cls, value: Any) -> "Model":
        if not isinstance(value.get("size"), int):
            raise Refused(f"input_value={value}")
        return cls(value["size"])

    def model_dump(self, *, mode: str) -> dict[str, int]:
        assert mode == "json"
        return {"size": self.size}


def send_confirmation(ctx: Context, booking_id: int, to: str) -> None:
    raise NotImplementedError


def through(signature: Signature, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Go all the way: a call, its stored payload, and the arguments that the worker makes of it."""
    return signature.arguments(decode(encode(signature.payload(args, kwargs), limit=10_000)))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 5), (float, 0.5), (float, 2), (str, "é"), (bool, True), (bytes, b"\0\xff"),
        (Any, {"a": [1, None]}), (object, [1]), (UUID, UUID(int=7)), (Decimal, Decimal("1.10")),
        (date, date(2026, 1, 2)),
        (datetime, datetime(2026, 1, 2, 3, tzinfo=UTC)), (timedelta, timedelta(seconds=90)),
        (Colour, Colour.RED),
        (Line, Line("a", ("b",), [Line("c")])), (Point, Point(1)), (Extra, {"note": "n"}), (Model, Model(3)),
        (list[Model] | None, [Model(4)]), (Model | None, None), (dict[int, str], {1: "one"}),
        (dict[UUID, Line], {UUID(int=1): Line("x")}), (tuple[int, str], (1, "b")), (set[int], {1, 2}),
        (typing.Literal["a", "b"], "b"), (typing.Annotated[int, msgspec.Meta(ge=1)], 1),
    ],
)  # fmt: skip
def test_a_value_reaches_the_handler_as_it_was_given(annotation, value):
    def handle(value) -> None:
        raise NotImplementedError

    handle.__annotations__["value"] = annotation
    signature = Signature(handle)
    assert through(signature, value) == {"value": value}
    assert through(signature, value=value) == {"value": value}


def test_a_misspelt_argument_is_told_its_nearest_neighbour():
    with pytest.raises(InvalidArguments) as refused:
        Signature(send_confirmation).payload((), {"bookin_id": 42})
    assert str(refused.value) == (
        'send_confirmation() has no argument "bookin_id". Did you mean "booking_id"?\n'
        "  signature: send_confirmation(booking_id: int, to: str)"
    )
    assert refused.value.code == "ON-ARG-001"
    assert isinstance(refused.value, InvalidJob)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((42,), {}, 'send_confirmation() needs the argument "to".'),
        (("x", "y"), {}, 'send_confirmation() argument "booking_id": expected int, got str'),
        ((1, "a", "b"), {}, "send_confirmation() takes at most 2 positional arguments, but 3 were given"),
        ((1,), {"booking_id": 2}, 'send_confirmation() was given the argument "booking_id" twice'),
        ((1, Colour), {}, 'send_confirmation() argument "to" can\'t be stored as JSON: '),
        ((1, "a"), {"ctx": None}, 'send_confirmation() has no argument "ctx".'),
        ((1, "a"), {"zzz": None}, 'send_confirmation() has no argument "zzz".\n'),
    ],
)
def test_a_call_that_does_not_fit_is_refused(args, kwargs, message):
    with pytest.raises(InvalidArguments) as refused:
        Signature(send_confirmation).payload(args, kwargs)
    assert str(refused.value).startswith(message)
    assert str(refused.value).endswith("\n  signature: send_confirmation(booking_id: int, to: str)")


def test_a_stored_payload_is_checked_again_before_the_run():
    signature = Signature(send_confirmation)
    assert signature.arguments({"to": "a", "booking_id": 1}) == {"to": "a", "booking_id": 1}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"to": "a"}, 'needs the argument "booking_id"'),
        ({"to": "a", "booking_id": "1"}, 'argument "booking_id": expected int, got str'),
        ({"to": "a", "booking_id": 1, "from": 2}, 'has no argument "from"'),
    ]
    for payload, message in wrong:
        with pytest.raises(InvalidArguments, match=message):
            signature.arguments(payload)


def test_a_wrong_value_deep_inside_is_found_by_its_path():
    def handle(lines: list[Line], model: Model) -> None:
        raise NotImplementedError

    signature = Signature(handle)
    with pytest.raises(InvalidArguments, match=r'argument "lines\[0\].sub\[0\].name": expected str, got int'):
        signature.arguments({"lines": [{"name": "a", "sub": [{"name": 1}]}], "model": {"size": 1}})
    with pytest.raises(InvalidArguments, match=r'argument "model": sizes.0: should be a valid integer\n'):
        signature.arguments({"lines": [], "model": {"size": "1"}})


def test_a_default_is_left_to_the_function_and_need_not_be_json():
    def handle(a: int, b: object = print, *, c: Model = Model(1)) -> None:  # noqa: B008 - that is the point
        raise NotImplementedError

    signature = Signature(handle)
    assert signature.payload((1,), {}) == {"a": 1}
    assert signature.arguments({"a": 1}) == {"a": 1}
    assert through(signature, 1, c=Model(2)) == {"a": 1, "c": Model(2)}
    with pytest.raises(InvalidArguments, match="at most 2 positional"):
        signature.payload((1, 2, 3), {})


def test_a_handler_of_any_arguments_gets_them_unchecked():
    def handle(a: int, b: int = 2, **others: Any) -> None:
        raise NotImplementedError

    signature = Signature(handle)
    assert through(signature, 1, x=[1], y="z") == {"a": 1, "x": [1], "y": "z"}
    with pytest.raises(InvalidArguments, match='argument "a": expected int'):
        signature.payload((), {"a": "1", "x": 1})

    def all_of_them(**others: Any) -> None:
        raise NotImplementedError

    assert through(Signature(all_of_them), x=1) == {"x": 1}


def test_a_handler_without_arguments_takes_none():  # S0-32
    def handle() -> None:
        raise NotImplementedError

    assert through(Signature(handle)) == {}
    with pytest.raises(InvalidArguments, match=r'handle\(\) has no argument "n"'):
        Signature(handle).arguments({"n": 1})


def test_an_argument_without_annotation_takes_anything():
    def handle(anything) -> None:
        raise NotImplementedError

    assert through(Signature(handle), anything={"a": (1, 2)}) == {"anything": {"a": [1, 2]}}


def test_annotations_may_be_text_and_the_context_anywhere():
    signature = Signature(textual.ship)
    assert signature.text == "ship(order: UUID, to: Address | None = None)"
    assert signature.context == "ctx"
    assert through(signature, UUID(int=1), textual.Address("Oslo")) == {
        "order": UUID(int=1),
        "to": textual.Address("Oslo"),
    }


def test_the_context_may_be_optional():
    def handle(n: int, context: Context | None = None) -> None:
        raise NotImplementedError

    assert Signature(handle).context == "context"
    assert Signature(textual.Address.__eq__).context is None


def test_a_name_that_does_not_exist_at_run_time_is_refused_at_definition():
    with pytest.raises(InvalidSetting, match=r"price\(\): .*'Decimal' is not defined.* TYPE_CHECKING"):
        Signature(textual.price)


def positional_only(n: int, /) -> None:
    raise NotImplementedError


def after_context(ctx: Context, /, n: int) -> None:
    raise NotImplementedError


def starred(*n: int) -> None:
    raise NotImplementedError


def two_contexts(one: Context, two: Context) -> None:
    raise NotImplementedError


def a_callback(done: Callable[[], None]) -> None:
    raise NotImplementedError


def nested(items: list[dict[str, Iterable[int]]]) -> None:
    raise NotImplementedError


def ambiguous(item: Line | Point) -> None:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (positional_only, "n is positional-only"),
        (after_context, "ctx is positional-only"),
        (starred, r"\*n have no names"),
        (two_contexts, "takes a Context twice, as one and two"),
        (a_callback, 'argument "done" can\'t be read from JSON as Callable'),
        (nested, 'argument "items" can\'t be read from JSON as Iterable'),
        (ambiguous, 'argument "item": Type unions may not contain more than one'),
    ],
)
def test_what_could_never_be_called_is_refused_at_definition(function, message):
    with pytest.raises(InvalidSetting, match=message):
        Signature(function)
