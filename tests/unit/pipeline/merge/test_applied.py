"""The base: its text, and what is no base."""

import base64
import hashlib
import json

import pytest

from mlcat_ingest.pipeline.merge.applied import (
    bases_by_writer,
    decode,
    encode,
    fingerprint,
    fingerprints_in,
    key_fingerprint,
    read_bases,
    text_of_keys,
)


def eight(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:6]).decode()


@pytest.mark.parametrize(
    ("key", "canonical"),
    [
        ("learning_rate", '"learning_rate"'),
        ("größe", '"größe"'),
        (
            ("urn:li:corpuser:u", "DATAOWNER", None, None),
            '["urn:li:corpuser:u","DATAOWNER",null,null]',
        ),
        (b'{"a":1,"b":2}', '{"a":1,"b":2}'),
    ],
)
def test_a_mark_is_of_the_keys_canonical_json(key: object, canonical: str) -> None:
    assert key_fingerprint(key) == eight(canonical)
    assert len(key_fingerprint(key)) == 8


def test_a_value_is_marked_whatever_the_order_of_its_keys() -> None:
    assert (
        fingerprint({"b": 1, "a": [2]})
        == fingerprint({"a": [2], "b": 1})
        == eight('{"a":[2],"b":1}')
    )


def test_what_has_no_json_form_has_a_mark() -> None:
    assert len(fingerprint(float("nan"))) == len(fingerprint("\ud800")) == 8
    assert fingerprint(float("nan")) != fingerprint(float("inf"))


@pytest.mark.parametrize("count", [0, 1, 3, 64, 65, 500])
def test_a_text_joins_sorted_marks(count: int) -> None:
    keys = tuple(str(n) for n in range(count))
    text = text_of_keys(keys)
    assert text == "".join(sorted(key_fingerprint(key) for key in keys))
    assert fingerprints_in(text) == {key_fingerprint(key) for key in keys}


def test_a_base_is_one_and_canonical_json() -> None:
    base = {"ownership": {"owners": "x" * 8}, "mlModelProperties": {"name": "y" * 8, "groups": ""}}
    text = encode(base)
    body = json.dumps(base, sort_keys=True, separators=(",", ":"))
    assert text == f"1 {body}"
    assert decode(text) == base


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        "{}",
        "1{}",
        "2 {}",
        "1 ",
        "1 not json",
        "1 []",
        '1 {"a": []}',
        '1 {"a": {"f": 7}}',
        '1 {"a": {"f": "seven c"}}',
        '1 {"a": {"f": "12345678"}} tail',
    ],
)
def test_anything_else_is_no_base(text: object) -> None:
    assert decode(text) is None


def test_bases_are_distinguished_by_their_writers() -> None:
    a, b, c = "aaaaaaaa", "bbbbbbbb", "cccccccc"
    properties = {
        "mlcat.source": "mlflow:a:",
        "mlcat.applied.ours": encode({"x": {"f": a}}),
        "mlcat.applied.theirs": encode({"x": {"f": b}, "y": {"g": b}}),
        "mlcat.applied.third": encode({"x": {"f": c}}),
        "mlcat.applied.broken": "1 {",
        "other": "1 {}",
    }
    assert bases_by_writer(properties).keys() == {"ours", "theirs", "third", "broken"}
    bases = read_bases(properties, "ours")
    assert bases.ours == {"x": {"f": a}}
    assert bases.others == {"x": {"f": b + c}, "y": {"g": b}}
    assert read_bases(properties, "broken").ours is None
    assert read_bases(properties, None).ours is None
    assert read_bases(properties, None).others["x"]["f"] == a + b + c
    assert read_bases({}, "ours").ours is None
