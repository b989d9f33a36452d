from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest

from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import (
    canonical,
    content_hash,
    dumps,
    embedded,
    loads,
)


class Colour(StrEnum):
    RED = "red"


@dataclass
class Point:
    x: int


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (float("nan"), r"nan at \$"),
        ({"a": [1, {"b": float("inf")}]}, r"inf at \$\.a\[1\]\.b"),
        ({"a": (None, float("-inf"))}, r"-inf at \$\.a\[1\]"),
        ({"a": [2**64]}, r"an integer beyond 64 bits at \$\.a\[0\]"),
        ({"a": -(2**63) - 1}, r"an integer beyond 64 bits at \$\.a"),
        ({"a": {1: 2}}, r"a key that is not text \(1\) at \$\.a"),
        ({"a": ["x", "\ud800"]}, r"a lone surrogate at \$\.a\[1\]"),
        ({"a": {"\udc00": 1}}, r"a lone surrogate in a key .* at \$\.a"),
        ({"a": {1}}, r"a set at \$\.a"),
        ({"a": b"x"}, r"a bytes at \$\.a"),
        ({"a": datetime(2026, 1, 1, tzinfo=UTC)}, r"a datetime at \$\.a"),
        ([Point(1)], r"a Point at \$\[0\]"),
        (circle(), "nested too deeply"),
        (nested(300), "Recursion limit"),
    ],
)
def test_what_has_no_faithful_form_is_refused_with_its_place(value: Any, sentence: str) -> None:
    for write in (dumps, canonical, content_hash):
        with pytest.raises(CodecError, match=sentence):
            write(value)


@pytest.mark.parametrize(
    "value",
    [
        {"note": "null is a word", "b": [None, True, 1.5, -0.0, {"x": None}]},
        [2**63 - 1, -(2**63), 2**64 - 1, 5e-324, 1.7976931348623157e308],
        {"": "\u0000\u2028\U0001f680", "\x7f": "é"},
        nested(200),
        "null",
        None,
    ],
)
def test_everything_else_comes_back_as_it_was(value: Any) -> None:
    assert loads(dumps(value)) == value
    assert loads(canonical(value)) == value


def test_enums_and_uuids_have_a_form_with_and_without_a_null_beside_them() -> None:
    assert dumps([Colour.RED, UUID(int=1), None]) == (
        b'["red","00000000-0000-0000-0000-000000000001",null]'
    )


def test_json_text_is_embedded_as_it_is() -> None:
    assert dumps([None, {"a": embedded('{"b":"é","n":null}')}]) == (
        '[null,{"a":{"b":"é","n":null}}]'.encode()
    )


def test_text_is_utf8_and_keys_keep_their_order() -> None:
    assert dumps({"b": "é", "a": 1}) == '{"b":"é","a":1}'.encode()


def test_equal_values_have_equal_hashes_whatever_their_order() -> None:
    one = content_hash({"a": 1, "b": {"c": [1, 2], "d": None}})
    other = content_hash({"b": {"d": None, "c": [1, 2]}, "a": 1})
    assert one == other
    assert len(one) == 32
    assert one != content_hash({"a": 1, "b": {"c": [2, 1], "d": None}})


@pytest.mark.parametrize(
    "text",
    [
        "18446744073709551616",
        "-9999999999999999999",
        '{"a":[1, 123456789012345678901234567890]}',
        '{"a":\n123456789012345678901234567890}',
    ],
)
def test_integers_of_any_width_stay_whole(text: str) -> None:
    value = loads(text)
    while not isinstance(value, int):
        value = next(iter(value.values())) if isinstance(value, dict) else value[-1]
    assert str(value) in text


def test_long_fractions_and_long_digits_in_text_stay_what_they_are() -> None:
    text = b'{"f": 0.12345678901234567890123, "s": "12345678901234567890123"}'
    assert loads(text) == {"f": float("0.12345678901234567890123"), "s": "12345678901234567890123"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "NaN",
        "[Infinity]",
        "1e400",
        "[-1e400]",
        '"\\ud800"',
        '{"\\udfff": 1}',
        b"\xff",
        b'"\xed\xa0\x80"',
        "\ud800",
        b"\xff\xfe1\x00",
        "1" * 5000,
        "[" * 5000,
        "[" * 200_000 + "]" * 200_000,
    ],
)
@pytest.mark.parametrize("wide", [False, True])
def test_what_is_not_json_is_refused_on_both_ways_of_reading(text: str | bytes, wide: bool) -> None:  # noqa: FBT001 - a parameter of the test
    if wide:
        long = "123456789012345678901234567890"
        text = f"[{long},{text}]" if isinstance(text, str) else b"[%b,%b]" % (long.encode(), text)
    with pytest.raises(CodecError, match="not usable JSON"):
        loads(text)


def test_escapes_beside_a_wide_integer_read_as_text() -> None:
    assert loads('["\\u00e9 \\ud83d\\ude80", 123456789012345678901]') == [
        "é 🚀",
        123456789012345678901,
    ]
