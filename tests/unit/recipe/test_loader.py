import json
import math

import pytest

from mlcat_ingest.errors import RecipeSyntaxError
from mlcat_ingest.recipe.loader import MAX_BYTES, parse

UNQUOTED = (
    "r.yml:2: not valid YAML: did not find expected ',' or '}' "
    "(inside { } and [ ], put quotes around ${…})"
)


def data(text: str | bytes) -> object:
    parsed = parse(text, "r.yml")
    assert parsed.problems == ()
    return parsed.data


@pytest.mark.parametrize(
    "word",
    [
        "NO",
        "no",
        "off",
        "on",
        "yes",
        "y",
        "12:30",
        "12:30:45",
        "1_000",
        "010",
        "0o17",
        "0x1F",
        "0b1",
        "2026-01-31",
        "2026-01-31T10:00:00Z",
        ".inf",
        "-.inf",
        ".nan",
        "+.5x",
        "1e9999",
        "=",
        "1.2.3",
        "1e",
        "1e5e5",
        "--",
        "+",
    ],
)
def test_traps_of_yaml_1_1_are_text(word: str) -> None:
    assert data(f"a: {word}") == {"a": word}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("0", 0),
        ("-12", -12),
        ("+7", 7),
        ("1.50", 1.5),
        ("-0.5", -0.5),
        (".5", 0.5),
        ("2.", 2.0),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("TRUE", True),
        ("null", None),
        ("~", None),
        ("", None),
    ],
)
def test_plain_numbers_booleans_and_nulls_are_typed(word: str, value: object) -> None:
    loaded = data(f"a: {word}")
    assert isinstance(loaded, dict)
    assert loaded == {"a": value}
    assert type(loaded["a"]) is type(value)


def test_an_integer_of_any_length_is_no_trap() -> None:
    assert data("a: " + "9" * 5000) == {"a": "9" * 5000}
    assert data("a: " + "9" * 40) == {"a": int("9" * 40)}


@pytest.mark.parametrize("text", ["a: '12'", 'a: "12"', "a: !!str 12", "a: |-\n  12"])
def test_quoted_scalars_are_text(text: str) -> None:
    assert data(text) == {"a": "12"}


def test_keys_are_text_whatever_they_look_like() -> None:
    assert data("on: 1\nno: 2\n12: 3\ntrue: 4\n~: 5\n") == {
        "on": 1,
        "no": 2,
        "12": 3,
        "true": 4,
        "~": 5,
    }


def test_lines_of_keys_and_items() -> None:
    parsed = parse("# comment\na:\n  - x\n  - b: 1\n    c: |\n      t\nd: {e: 1}\n", "r.yml")
    assert parsed.origin.lines == {
        (): 2,
        ("a",): 2,
        ("a", 0): 3,
        ("a", 1): 4,
        ("a", 1, "b"): 4,
        ("a", 1, "c"): 5,
        ("d",): 7,
        ("d", "e"): 7,
    }


def test_duplicate_keys_are_all_reported_with_both_lines() -> None:
    parsed = parse("a: 1\nb: {c: 1, c: 2}\na: 3\n", "r.yml")
    assert [p.render("r.yml") for p in parsed.problems] == [
        "r.yml:3: a: duplicate key, already on line 1",
        "r.yml:2: b.c: duplicate key, already on line 2",
    ]
    assert parsed.data == {"a": 1, "b": {"c": 1}}


def test_byte_order_mark_and_crlf_are_fine() -> None:
    assert data(b"\xef\xbb\xbfa: 1\r\nb: x\r\n") == {"a": 1, "b": "x"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "r.yml: the file is empty (`mlcat-ingest init` writes a starter recipe)"),
        (
            "# only a comment\n",
            "r.yml: the file is empty (`mlcat-ingest init` writes a starter recipe)",
        ),
        (
            "a: 1\n---\nb: 2\n",
            "r.yml:2: not valid YAML: a second document begins here; a file contains one",
        ),
        (
            "a:\n\tb: 1\n",
            "r.yml:2: not valid YAML: a tab in the indentation (YAML requires spaces)",
        ),
        ("a: [1\n", "r.yml:2: not valid YAML: did not find expected ',' or ']'"),
        (
            "a: 1\nb: c: d\n",
            (
                "r.yml:2: not valid YAML: mapping values are not allowed in this context (put "
                "quotes around a text with a colon and a space, and check the indentation)"
            ),
        ),
        ("a: *nope\n", "r.yml:1: not valid YAML: found undefined alias"),
        ("a: 1\nb: {c: ${D}}\n", UNQUOTED),
        ("a: 1\nb: \x01\n", "r.yml:2: a control character, which YAML does not allow"),
        ("ä: €\nb: \x7f\nc: 1\n", "r.yml:2: a control character, which YAML does not allow"),
        (b"a: \xff\n", "r.yml: not UTF-8 text (save it as UTF-8)"),
        ("a: \ud800", "r.yml: not UTF-8 text (save it as UTF-8)"),
        ("a" * (MAX_BYTES + 1), f"r.yml: larger than {MAX_BYTES:,} bytes"),
        ("[" * 101 + "]" * 101, "r.yml: nested too deeply"),
        ("[" * 200_000, "r.yml: nested too deeply"),
        ('{"a":' * 200_000, "r.yml: nested too deeply"),
    ],
)
def test_what_is_not_yaml_is_one_sentence_with_its_line(text: str | bytes, sentence: str) -> None:
    with pytest.raises(RecipeSyntaxError) as caught:
        parse(text, "r.yml")
    assert str(caught.value) == sentence


def test_a_syntax_error_repeats_no_value() -> None:
    with pytest.raises(RecipeSyntaxError) as caught:
        parse("token: hunter2secret: 'hunter2secret\n", "r.yml")
    assert "hunter2" not in str(caught.value)


def test_aliases_and_merge_keys_expand() -> None:
    text = """\
base: &base {a: 1, b: 2}
more: &more {b: 3, c: 3}
one: {<<: *base, b: 9}
two: {<<: [*base, *more], d: 4}
three: *more
"""
    loaded = data(text)
    assert isinstance(loaded, dict)
    assert loaded["one"] == {"a": 1, "b": 9}
    assert loaded["two"] == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert loaded["three"] == {"b": 3, "c": 3}


def test_a_merged_key_has_the_line_of_its_anchor() -> None:
    parsed = parse("base: &b\n  a: 1\nuse:\n  <<: *b\n  c: 2\n", "r.yml")
    assert parsed.origin.lines["use", "a"] == 2
    assert parsed.origin.lines["use", "c"] == 5


@pytest.mark.parametrize("text", ["a: {<<: 1}", "a: {<<: [1]}"])
def test_a_merge_key_takes_mappings_only(text: str) -> None:
    [problem] = parse(text, "r.yml").problems
    assert problem.render() == "a: a merge key (<<) takes a mapping or a list of mappings"


@pytest.mark.parametrize(
    ("text", "path"),
    [("a: &a [*a]", "a[0]"), ("a: &a {b: {c: *a}}", "a.b.c"), ("a: &a {<<: *a}", "a")],
)
def test_an_alias_inside_itself_is_a_problem(text: str, path: str) -> None:
    [problem] = parse(text, "r.yml").problems
    assert problem.render() == f"{path}: an alias (*) is inside its own anchor (&)"


@pytest.mark.parametrize("text", ["[1, 2, 3]", "{a: 1, b: [2]}", "- - - 1\n  - 2"])
def test_a_text_of_too_many_nodes_is_refused_while_it_is_read(text: str) -> None:
    with pytest.raises(RecipeSyntaxError) as caught:
        parse(text, "r.yml", max_nodes=3)
    assert str(caught.value) == "r.yml: more than 3 keys and values (divide it into several files)"


def bomb(levels: int, merge: str) -> str:
    lines = ["a0: &a0 {x: 1}"]
    for i in range(1, levels):
        items = ", ".join([f"*a{i - 1}"] * 9)
        lines.append(f"a{i}: &a{i} " + ("{<<: [%s]}" if merge else "[%s]") % items)
    return "\n".join(lines)


@pytest.mark.parametrize("merge", ["", "merge"])
def test_an_alias_bomb_is_refused(merge: str) -> None:
    with pytest.raises(RecipeSyntaxError) as caught:
        parse(bomb(12, merge), "r.yml")
    assert str(caught.value) == "r.yml: too large once its aliases are expanded"


@pytest.mark.parametrize(
    "text", ["a: !!int '3'", "a: !!python/object/apply:os.system [ls]", "a: !x {}"]
)
def test_tags_have_no_meaning(text: str) -> None:
    [problem] = parse(text, "r.yml").problems
    assert problem.render() == "a: YAML tags (!) have no meaning here"


def test_a_key_that_is_no_text_is_a_problem() -> None:
    [problem] = parse("a: 1\n? [b]\n: 2\n", "r.yml").problems
    assert problem.render("r.yml") == "r.yml:2: a key must be plain text"


def test_json_with_tabs_escapes_and_surrogate_pairs() -> None:
    value = {"a": ["\U0001f600", 'q"\\', "/", "tab\there", "é"], "n": 1.5, "t": True, "z": None}
    text = json.dumps(value, indent="\t").replace("/", "\\/")
    assert "\\ud83d" in text
    assert data(text) == value
    assert data('{"a": "\\\\ud83d\\\\ude00"}') == {"a": "\\ud83d\\ude00"}


def test_json_positions_and_duplicates() -> None:
    parsed = parse('{\n\t"a": 1,\n\t"b": [1, 2],\n\t"a": 2\n}', "r.json")
    assert parsed.origin.lines["b", 1] == 3
    assert [p.line for p in parsed.problems] == [4]


def test_numbers_are_finite() -> None:
    loaded = data("a: 1e308\nb: 1e309\n")
    assert isinstance(loaded, dict)
    assert math.isfinite(loaded["a"])
    assert loaded["b"] == "1e309"


@pytest.mark.parametrize("link", ["a%d: &a%d [*a%d]", "a%d: &a%d {<<: *a%d}"])
def test_a_long_chain_of_aliases_is_refused(link: str) -> None:
    lines = ["a0: &a0 {x: 1}", *(link % (i, i, i - 1) for i in range(1, 2000))]
    with pytest.raises(RecipeSyntaxError) as caught:
        parse("\n".join(lines), "r.yml")
    assert str(caught.value) == "r.yml: nested too deeply"
