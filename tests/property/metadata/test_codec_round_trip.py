"""JSON in and out: nothing changes, and what cannot be kept is refused."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import aspect_text, canonical, content_hash, dumps, loads

texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20
)
anything = st.recursive(
    scalars | st.floats() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)


@given(values)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert same(loads(dumps(value)), value)
    assert loads(canonical(value)) == value
    assert content_hash(loads(dumps(value))) == content_hash(value)


# Accents, marks that combine, other scripts, and characters that UTF-16 writes as two units.
beyond_ascii = st.text(st.characters(min_codepoint=0x80, exclude_categories=["Cs"]))
hostile = st.recursive(
    beyond_ascii | values,
    lambda inner: st.lists(inner) | st.dictionaries(beyond_ascii, inner),
    max_leaves=20,
)


@given(hostile)
def test_a_reader_of_bytes_decodes_the_text_of_an_aspect(value: Any) -> None:
    # DataHub declares the field as bytes: each character is one, and the bytes are JSON in UTF-8.
    data = aspect_text(value).encode("latin-1")
    assert same(json.loads(data.decode()), value)
    assert same(loads(data), value)


@given(values)
def test_an_ascii_aspect_has_the_text_of_other_json(value: Any) -> None:
    data = dumps(value)
    if data.isascii():
        assert aspect_text(value) == data.decode()


@given(anything)
def test_a_value_is_written_whole_or_refused(value: Any) -> None:
    try:
        data = dumps(value)
    except CodecError as error:
        reported = error.message
        assert "$" in reported  # the place is named
        return
    assert same(loads(data), value)


@given(
    st.recursive(
        values | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(texts, inner)
    )
)
def test_texts_of_other_writers_read_as_the_standard_library_reads_them(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert same(loads(text), value)
        assert same(loads(text.encode()), value)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 30))
def test_floats_read_as_the_nearest_float(value: float, digits: int) -> None:
    for text in (f"{value:.{digits}e}", f"{value:.{digits}f}"):
        expected = float(text)
        if math.isfinite(expected):
            assert loads(f"[{text}]")[0] == expected


@given(st.binary() | texts.map(str.encode))
def test_any_bytes_read_or_are_refused(data: bytes) -> None:
    try:
        value = loads(data)
    except CodecError:
        with pytest.raises((ValueError, RecursionError, CodecError)):
            dumps(json.loads(data.decode()))
        return
    assert same(json.loads(data.decode()), value)
