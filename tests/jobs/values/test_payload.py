"""A payload comes back equal or is refused with its path; a result is always written."""

import enum
import json
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.jobs.payload import CUT, decode, encode, lenient
from onward.errors import PayloadRejected, PayloadTooLarge

LIMIT = 1_048_576
INTEGERS = st.integers(-(2**63), 2**64 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.floats(1e15, 1e24) | st.floats(-1e24, -1e15)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def nested(leaves, texts):
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=12,
    )


JSON = nested(st.none() | st.booleans() | INTEGERS | FLOATS | TEXT, TEXT)


class Level(enum.IntEnum):
    HIGH = 3


class Colour(enum.StrEnum):
    RED = "red"


class Name(str):
    __slots__ = ()


class Count(int):
    pass


class Ratio(float):
    pass


class Plain(enum.Enum):
    A = "a"


@dataclass
class Point:
    x: int = 1


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


class Liar(list):
    def __len__(self) -> int:
        return 0


def as_jsonb_writes(text: str) -> str:
    """Write JSON as PostgreSQL gives it back from jsonb, whose numbers are numerics without an exponent."""

    def write(value) -> str:
        if isinstance(value, Decimal):
            written = f"{value:f}"
            return written.removeprefix("-") if not value else written
        if isinstance(value, dict):
            return "{" + ", ".join(f"{json.dumps(k)}: {write(v)}" for k, v in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(write, value)) + "]"
        return json.dumps(value, ensure_ascii=False)

    return write(json.loads(text, parse_float=Decimal, parse_int=Decimal))


def same(one: object, other: object) -> bool:
    """Equal, with no bool taken for a number."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other and isinstance(one, bool) == isinstance(other, bool)


@given(JSON)
def test_what_is_accepted_comes_back_equal_from_text_and_from_jsonb(value):  # F42
    text = encode(value, limit=LIMIT)
    assert same(decode(text), value)
    assert same(decode(as_jsonb_writes(text)), value)


@pytest.mark.parametrize(
    "value",
    [
        1e15,
        1e16,
        1e22,
        1e23,
        1e308,
        1.7976931348623157e308,
        -1e19,
        1.2345678901234567e18,
        2.0**63,
        2.0**64,
        5e-324,
    ],
)
def test_a_float_that_jsonb_writes_as_a_whole_number_comes_back_equal(value):
    text = encode({"x": value, "s": "e16 000"}, limit=LIMIT)
    assert decode(as_jsonb_writes(text)) == decode(text) == {"x": value, "s": "e16 000"}


def test_a_long_whole_number_is_read_as_the_float_it_was():
    assert decode("1" + "0" * 308) == 1e308
    assert decode(f'{{"a": [-1{"0" * 23}, 18446744073709551615]}}') == {"a": [-1e23, 2**64 - 1]}
    assert isinstance(decode("9000000000000000000"), int)
    assert decode('"1' + "0" * 30 + '"') == "1" + "0" * 30


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        0,
        -0.0,
        [],
        {},
        2**64 - 1,
        -(2**63),
        {"phone": "12345678901234567890123"},
        {"literal": "\\u0000 and e16"},
        {"1e17": "1e17"},
        {"a": 0.000012345678901234567},
        Level.HIGH,
        {Colour.RED: Colour.RED},
        [Name("x"), Count(3), Ratio(0.5), {Name("k"): Name("v")}],
        OrderedDict(b=1, a=2),
        {"rows": [{"n": n} for n in range(500)]},
        {"\u202eright to left": "\U0001f600\x7f\x1f"},
    ],
)
def test_what_looks_odd_but_comes_back_equal_is_accepted(value):
    assert decode(encode(value, limit=LIMIT)) == value


def test_subclasses_come_back_plain():
    back = decode(encode([Name("x"), Count(3), Level.HIGH], limit=LIMIT))
    assert [type(item) for item in back] == [str, int, int]


def test_the_text_is_compact_and_keeps_the_order_of_keys():
    assert encode({"b": [1, True], "a": "é", "c": 1e17}, limit=LIMIT) == (
        '{"b":[1,true],"a":"é","c":100000000000000000.0}'
    )


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (float("nan"), "nan is no number in JSON; use null"),
        (float("inf"), "inf is no number"),
        (float("-inf"), "-inf is no number"),
        ("a\0b", "NUL character at position 1; remove it"),
        ("ab\udfff", "half a surrogate pair at position 2"),
        (2**64, "18446744073709551616 is outside of"),
        (2**70, "outside of -2\\*\\*63 to 2\\*\\*64-1; send it as text"),
        (-(2**63) - 1, "outside of"),
        (10**5000, "outside of"),
        (b"xyz", "3 bytes are not text; use base64"),
        (bytearray(b"xyz"), "3 bytearray are not text"),
        ((1, 2), "tuple and would come back as a list; use a list"),
        ({1}, "set and would come back as a list; use a list"),
        (frozenset(), "frozenset .* use a list"),
        (Decimal("1.5"), "is a Decimal .* use str\\(value\\)"),
        (datetime(2026, 1, 1, tzinfo=UTC), "is a datetime .* use value.isoformat"),
        (UUID(int=1), "is a UUID .* use str"),
        (Point(), "Point\\(x=1\\) is a Point"),
        (Plain.A, "is a Plain"),
        (object(), "is an object"),
        (Hostile(), "<Hostile without a repr> is a Hostile"),
        ({1: "x"}, "1 is a key and not text"),
        ({None: "x"}, "None is a key and not text"),
        ({"\0": 1}, "NUL character"),
        ({"\ud800": 1}, "surrogate"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_hostile_value_is_refused_with_its_path(bad, complaint):  # F42
    with pytest.raises(PayloadRejected, match=complaint) as caught:
        encode({"note": "fine", "items": [1, 2, 3, {"price": bad}]}, limit=LIMIT, what="result")
    assert str(caught.value).startswith("result at $.items[3].price: ")
    with pytest.raises(PayloadRejected, match=r"payload at \$: "):
        encode(bad, limit=LIMIT)


def test_odd_keys_are_quoted_in_a_path():
    with pytest.raises(PayloadRejected, match=r'at \$\["a b"\]\["\\u00e9"\]: '):
        encode({"a b": {"é": float("nan")}}, limit=LIMIT)


@pytest.mark.parametrize(
    "value",
    [
        {"password": "hunter2hunter2\0"},
        {"api_key": {"value": 2**70, "x": "hunter2"}},
        {"user": Point("password=hunter2")},  # type: ignore[arg-type]
        {"note": "x" * 20 + "hunter2" + "x" * 20 + "\0"},
        {"blob": b"hunter2"},
    ],
)
def test_a_refusal_does_not_print_what_may_be_a_secret(value):
    with pytest.raises(PayloadRejected) as caught:
        encode(value, limit=LIMIT)
    assert "hunter2" not in str(caught.value)
    assert str(2**70) not in str(caught.value)


def test_a_refusal_stays_short():
    with pytest.raises(PayloadRejected) as caught:
        encode({"k" * 10_000: {"x": tuple(range(10**5))}}, limit=10**7)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}])
def test_depth_is_bounded_exactly(wrap):
    value: object = 1
    for _ in range(64):
        value = wrap(value)
    assert decode(encode(value, limit=LIMIT)) == value
    with pytest.raises(PayloadRejected, match="deeper than 64 levels; flatten it"):
        encode(wrap(value), limit=LIMIT)


def test_a_hundred_thousand_levels_are_refused_and_not_a_recursion_error():
    value: object = 1
    for _ in range(10**5):
        value = [value]
    with pytest.raises(PayloadRejected, match="deeper than 64 levels"):
        encode(value, limit=LIMIT)
    assert CUT in lenient(value, LIMIT)


def test_a_cycle_is_named():
    cycle: dict[str, object] = {"self": []}
    cycle["self"] = [cycle] * 100
    with pytest.raises(PayloadRejected, match=r"at \$\.self\[0\]: .* contains itself; break the cycle"):
        encode(cycle, limit=LIMIT)
    assert json.loads(lenient(cycle, LIMIT)) == {"self": [{CUT: "a cycle"}] * 100}


def test_the_same_list_twice_is_no_cycle():
    shared = [1.5e18]
    assert decode(encode([shared, shared], limit=LIMIT)) == [shared, shared]


def test_size_counts_bytes_of_the_text():
    assert encode("é" * 10, limit=22) == '"' + "é" * 10 + '"'
    with pytest.raises(PayloadTooLarge, match="takes 22 bytes of JSON, most of it at \\$; the limit is 21"):
        encode("é" * 10, limit=21)


@pytest.mark.parametrize("body", ["x" * 100, Name("x" * 100)])
def test_too_large_names_the_largest_part(body):
    with pytest.raises(PayloadTooLarge, match=r"result takes .* at \$\.body; the limit is 50"):
        encode({"id": 1, "body": body}, limit=50, what="result")


ANYTHING = nested(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters() | st.sampled_from("\0\ud800\udfff"))
    | st.binary()
    | st.decimals()
    | st.uuids()
    | st.builds(Hostile)
    | st.tuples(st.floats(), st.binary())
    | st.sets(st.integers())
    | st.builds(Liar, st.lists(st.integers())),
    st.text(st.characters() | st.sampled_from("\0\ud800")),
)


@given(ANYTHING, st.integers(0, 400))
def test_a_result_is_always_written_and_within_its_limit(value, limit):  # F42
    text = lenient(value, limit)
    assert len(text.encode()) <= max(limit, 4)
    decode(text)
    assert "\\u0000" not in text.replace("\\\\", "")


@given(ANYTHING)
def test_what_lenient_wrote_could_have_been_a_payload(value):
    written = decode(lenient(value, LIMIT))
    assert same(decode(encode(written, limit=LIMIT)), written)


@given(JSON)
def test_a_good_result_is_written_as_it_is(value):
    assert lenient(value, LIMIT) == encode(value, limit=LIMIT)


def test_bad_parts_of_a_result_are_replaced():
    value = {
        "nan": float("nan"),
        "inf": float("-inf"),
        "nul": "a\0b",
        "half": "a\ud800b",
        "bytes": b"ok\xff",
        "tuple": (1, (2,)),
        "big": 2**70,
        "point": Point(),
        "hostile": Hostile(),
        3: "key",
        "n\0": 1,
    }
    assert decode(lenient(value, LIMIT)) == {
        "nan": "NaN",
        "inf": "-Infinity",
        "nul": "a\ufffdb",
        "half": "a\ufffdb",
        "bytes": "ok\\xff",
        "tuple": [1, [2]],
        "big": str(2**70),
        "point": "Point(x=1)",
        "hostile": "<Hostile without a repr>",
        "3": "key",
        "n\ufffd": 1,
    }


def test_a_large_result_is_cut_and_says_so():
    marker = decode(lenient({"rows": list(range(10_000))}, 1000))[CUT]
    assert marker["bytes"] > 10_000
    assert marker["start"].startswith('{"rows":[0,1,2')
    assert lenient("x" * 100, 10) == "null"


@pytest.mark.parametrize("limit", [100, 101, 1000])
def test_escapes_do_not_push_the_start_of_a_cut_result_out(limit):
    marker = decode(lenient('"' * 10_000, limit))[CUT]
    assert marker["start"].startswith('"')


def test_deep_tuples_are_cut_too():
    value: object = 1
    for _ in range(1000):
        value = (value,)
    assert CUT in lenient(value, LIMIT)
