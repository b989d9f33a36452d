"""Text and numbers made fit, and sizes kept."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.core.text import whole_characters
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.sources.mlflow.mapping.properties import OWN_KEYS, PropertiesBuilder, source_name
from mlcat_ingest.sources.mlflow.mapping.text import (
    Truncator,
    _shrink,
    cut,
    number_texts,
    truncate_aspect,
)
from mlcat_ingest.sources.mlflow.values.joined import SizeLimits


def test_ordinary_text_stays_and_leaves_no_note() -> None:
    truncator = Truncator()
    for text in ("", "plain", "two\nlines\tand\r\n", "é 😀 \u202e עברית", "a\u2028b"):
        assert truncator.text(text, "here") == truncator.clean(text, "here") == text
    assert truncator.notes == []


def test_controls_and_half_characters_are_replaced_and_noted() -> None:
    truncator = Truncator()
    assert truncator.clean("a\x00b\x1b[0m\x7f\x85\ud83d", "tag 'x'") == "a�b�[0m���"
    assert truncator.notes == [Note("characters_replaced", "tag 'x'")]
    assert whole_characters("a\x00\ud83d") == "a\x00�"


def test_long_text_is_cut_with_its_length() -> None:
    truncator = Truncator()
    assert truncator.text("x" * 12, "note", 10) == "xxxxxxxxxx… [truncated, 12 characters]"
    assert truncator.notes == [Note("truncated", "note: 12 characters")]
    assert cut("x" * 10, 10) == "x" * 10


def test_a_text_cut_twice_tells_its_first_length() -> None:
    assert cut(cut("x" * 1000, 100), 10) == "xxxxxxxxxx… [truncated, 1000 characters]"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1.0, "1.0"),
        (1e16, "1e+16"),
        (0.0001, "0.0001"),
        (0.00001234, "1.234e-05"),
        (-0.0, "-0.0"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (1.7976931348623157e308, "Infinity"),
        (-1.7976931348623157e308, "-Infinity"),
        (1.7976931348623155e308, "1.7976931348623155e+308"),
    ],
)
def test_numbers_have_their_shortest_exact_text(value: float, text: str) -> None:
    assert number_texts([value]) == [text]


@given(st.lists(st.floats(allow_nan=False, min_value=-1e300, max_value=1e300)))
def test_texts_of_numbers_are_those_of_python(values: list[float]) -> None:
    assert number_texts(values) == list(map(repr, values))


def test_times_beyond_64_bits_are_left_out_and_noted() -> None:
    truncator = Truncator()
    assert truncator.time_ms(None, "start") is None
    assert truncator.time_ms(2**63 - 1, "start") == 2**63 - 1
    assert truncator.notes == []
    assert truncator.time_ms(2**63, "start") is None
    assert truncator.notes == [Note("invalid_time", "start")]


def test_no_two_tag_names_become_one() -> None:
    names = ["a", "tag.a", "source.a", "mlcat.a", "source.mlcat.a", "source.source.mlcat.a"]
    names += [f"{prefix}{key}" for key in OWN_KEYS for prefix in ("", "tag.", "tag.tag.")]
    found = [source_name(name) for name in names]
    assert len(set(found)) == len(names)
    assert not any(name in OWN_KEYS or name.startswith("mlcat.") for name in found)


def test_tags_whose_names_are_cut_alike_are_both_kept() -> None:
    custom = PropertiesBuilder(Truncator())
    tags = {"k\x00": "1", "k\x01": "2", "k�": "3"}
    custom.add_tags(tags)
    assert sorted(custom.values.values()) == ["1", "2", "3"]
    assert [note.kind for note in custom.truncator.notes] == ["characters_replaced"] * 2


def test_an_address_is_not_cut_within_its_password() -> None:
    assert "s3c" not in cut("https://ann:s3cret@git.example.com/x", 15)


def truncator_of(aspect_bytes: int) -> Truncator:
    return Truncator(SizeLimits(aspect_bytes=aspect_bytes))


def aspect(count: int) -> dict[str, object]:
    return {
        "customProperties": {f"key {n}": "v" for n in range(count)},
        "hyperParams": entries([f"p{n}" for n in range(count)], "v"),
        "trainingMetrics": entries([f"m{n}" for n in range(count)], "1.0"),
    }


def entries(names: list[str], value: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name in names]


def test_lists_are_halved_where_cutting_values_is_not_enough() -> None:
    truncator = truncator_of(2_000)
    found = _shrink(aspect(100), truncator)
    assert len(dumps(found)) <= 2_000
    kinds = {note.detail.split(" ", maxsplit=1)[0] for note in truncator.notes}
    assert kinds == {"properties", "trainingMetrics", "hyperParams", "customProperties"}
    assert next(iter(found["customProperties"])) == "key 0"


def test_an_aspect_that_fits_is_left_alone() -> None:
    small = aspect(3)
    size = len(dumps(small))
    roomy, exact, tight = Truncator(), truncator_of(size), truncator_of(size - 1)
    assert _shrink(small, roomy) is small
    assert truncate_aspect(small, roomy) is small
    # Too large by the estimate, which is one from above, but not when it is measured.
    assert truncate_aspect(small, exact) is small
    assert roomy.notes == exact.notes == []
    assert truncate_aspect(small, tight) != small


def test_shrinking_ends_where_nothing_is_left_to_halve() -> None:
    name = "n" * 300
    assert _shrink({"name": name, "description": "d"}, truncator_of(100)) == {
        "name": name,
        "description": "d",
    }
