"""The base: its text, and what is no base."""

import base64
import hashlib

import pytest

from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.pipeline.merge.applied import (
    Bases,
    bases_by_writer,
    decode,
    encode,
    fingerprint,
    fingerprints_in,
    key_fingerprint,
    read_bases,
    text_of_keys,
)


def digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()


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
    assert key_fingerprint(key) == digest(canonical)[:6]


def test_a_value_is_marked_whatever_the_order_of_its_keys() -> None:
    assert (
        fingerprint({"b": 1, "a": [2]})
        == fingerprint({"a": [2], "b": 1})
        == digest('{"a":[2],"b":1}')[:6]
    )


def test_what_has_no_json_form_has_a_mark() -> None:
    assert len(fingerprint(float("nan"))) == len(fingerprint("\ud800")) == 6
    assert fingerprint(float("nan")) != fingerprint(float("inf"))


@pytest.mark.parametrize("count", [0, 1, 3, 64, 65, 500])
def test_a_text_joins_sorted_marks(count: int) -> None:
    keys = tuple(str(n) for n in range(count))
    text = text_of_keys(keys)
    assert text == "".join(sorted(key_fingerprint(key) for key in keys))
    assert fingerprints_in(text) == {key_fingerprint(key) for key in keys}


BASE = {"ownership": {"owners": "x" * 12}, "mlModelProperties": {"name": "y" * 6, "groups": ""}}


def test_a_base_is_a_label_and_the_marks_of_each_field_in_the_order_of_names() -> None:
    groups, name, owners = (
        digest(field)[:4]
        for field in ("mlModelProperties.groups", "mlModelProperties.name", "ownership.owners")
    )
    assert encode(BASE, "an-id") == f"2:an-id:{groups}:{name}yyyyyy:{owners}xxxxxxxxxxxx"
    assert decode(encode(BASE)) == BASE
    assert (encode({}), decode("2:"), decode("2:x")) == ("2:", {}, {})


def test_a_field_that_is_not_declared_is_spelled_out() -> None:
    base = {"größe:=": {"a=b:c": "x" * 6}, "ownership": {"unheard of": ""}}
    text = encode(base)
    assert text == "2::=gr%C3%B6%C3%9Fe%3A%3D=a%3Db%3Ac=xxxxxx:=ownership=unheard%20of="
    assert decode(text) == base


def test_no_two_declared_fields_have_one_label() -> None:
    named = [
        (aspect, name)
        for aspect, spec in ASPECTS.items()
        if spec.type is not None
        for name in spec.type.fields
    ]
    base = {aspect: {name: "" for of, name in named if of == aspect} for aspect, _ in named}
    assert "=" not in encode(base)
    assert decode(encode(base)) == base


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        "{}",
        "1{}",
        "2 {}",
        "2",
        "3:",
        "2nM6rxxxxxx",
        "2::nM6rxxxxx",
        "2::????xxxxxx",
        "2::nM6rxxxxxx:",
        "2::nM6rxxxxxx:????",
        "2::=a=xxxxxx",
        "2::=a=b=xxxxx",
        "2::=a=b=c=xxxxxx",
        '1 {"a": {"f": "12345678"}}',
    ],
)
def test_anything_else_is_no_base(text: object) -> None:
    assert decode(text) is None


def test_bases_are_distinguished_by_their_writers() -> None:
    a, b, c = "aaaaaa", "bbbbbb", "cccccc"
    properties = {
        "mlcat.source": "mlflow:a:",
        "mlcat.applied.ours": encode({"x": {"f": a}}),
        "mlcat.applied.theirs": encode({"x": {"f": b}, "y": {"g": b}}),
        "mlcat.applied.third": encode({"x": {"f": c}}),
        "mlcat.applied.broken": "1 {",
        "other": "1 {}",
    }
    assert bases_by_writer(properties).keys() == {"ours", "theirs", "third", "broken"}
    bases = read_bases(properties, Writer("ours"))
    assert bases.ours == {"x": {"f": a}}
    assert bases.others == {"x": {"f": b + c}, "y": {"g": b}}
    assert read_bases(properties, Writer("broken")).ours is None
    assert read_bases(properties, None).ours is None
    assert read_bases(properties, None).others["x"]["f"] == a + b + c
    assert read_bases({}, Writer("ours")).ours is None


def test_the_bases_of_all_writers_are_joined_field_by_field() -> None:
    ours, theirs = {"globalTags": {"tags": "aaaaaa"}}, {"globalTags": {"tags": "bbbbbb"}}
    domains = {"domains": {"domains": "cccccc"}}
    assert Bases(ours, {**theirs, **domains}).joined == {
        "globalTags": {"tags": "aaaaaabbbbbb"},
        **domains,
    }
    assert Bases(None, domains).joined == domains
