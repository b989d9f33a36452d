from pathlib import Path

import pytest

from mlcat_ingest.recipe.draft import MAX_FILE_BYTES, _Expander, draft_of_data
from mlcat_ingest.recipe.secrets import SubstitutedText, mask

ENV = {"A": "alpha", "EMPTY": "", "NESTED": "${A} $${A} {x}: [y]", "API_TOKEN": "tok-12345"}
FORMS = "use ${VAR}, ${VAR:-default}, ${VAR:?message} or ${file:/path}; $${ is a literal ${"


def expand(text: str, base_dir: Path = Path("/nowhere")) -> object:
    expander = _Expander(ENV, base_dir)
    out = expander.value(text)
    assert expander.failures == []
    return out


def failures(text: str, base_dir: Path = Path("/nowhere")) -> list[str]:
    expander = _Expander(ENV, base_dir)
    expander.value({"k": text})
    assert {loc for loc, _ in expander.failures} == {("k",)}
    return [sentence for _, sentence in expander.failures]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${A}", "alpha"),
        ("x${A}y${A}z", "xalphayalphaz"),
        ("${EMPTY}", ""),
        ("${EMPTY:-d}", "d"),
        ("${NOPE:-}", ""),
        ("${NOPE:-http://h:1/a?b=$c&d={e}", "http://h:1/a?b=$c&d={e"),
        ("${NOPE:-two\nlines}", "two\nlines"),
        ("${A:-d}", "alpha"),
        ("${A:?no A}", "alpha"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$A $ $$ a$", "$A $ $$ a$"),
        ("${NESTED}", "${A} $${A} {x}: [y]"),
        ("${NOPE:-$${A}", "$${A"),
    ],
)
def test_what_expands_and_what_does_not(text: str, value: str) -> None:
    assert expand(text) == value


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("${NOPE}", "the variable NOPE is not set"),
        ("${NOPE:?give the address}", "the variable NOPE is not set: give the address"),
        ("${EMPTY:?give it}", "the variable EMPTY is not set: give it"),
        ("a ${A", "a ${ is not closed; " + FORMS),
        ("${}", "invalid ${…}; " + FORMS),
        ("${A-x}", "invalid ${…}; " + FORMS),
        ("${A:=x}", "invalid ${…}; " + FORMS),
        ("${A:}", "invalid ${…}; " + FORMS),
        ("${a.b}", "invalid ${…}; " + FORMS),
        ("${ A }", "invalid ${…}; " + FORMS),
    ],
)
def test_what_has_no_value_is_a_sentence(text: str, sentence: str) -> None:
    assert failures(text) == [sentence]


def test_every_failure_of_a_text_and_of_all_texts_is_reported() -> None:
    expander = _Expander({}, Path())
    expander.value({"a": ["${X}${Y}", 1], "b": {"c": "${Z}"}})
    assert expander.failures == [
        (("a", 0), "the variable X is not set"),
        (("a", 0), "the variable Y is not set"),
        (("b", "c"), "the variable Z is not set"),
    ]


def test_keys_and_other_values_are_left_alone() -> None:
    data = {"${A}": [1, None, True, 2.5, "plain"]}
    expander = _Expander(ENV, Path())
    assert (expander.value(data), expander.failures) == (data, [])


def test_files_lose_the_newline_at_their_end(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\xef\xbb\xbf from file \r\n")
    assert expand("${file:secret}", tmp_path) == " from file "
    assert expand(f"x${{file:{tmp_path}/secret}}y") == "x from file y"


def test_a_file_below_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "token").write_text("t")
    assert expand("${file:~/token}") == "t"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "big").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    read = "the file of ${file:…} "
    assert failures("${file:none}", tmp_path) == [
        read + "cannot be read: No such file or directory"
    ]
    assert failures("${file:.}", tmp_path) == [read + "cannot be read: Is a directory"]
    assert failures("${file:a\0b}", tmp_path) == [read + "cannot be read: its path is invalid"]
    assert failures("${file:~nobody-here/x}", tmp_path) == [
        read + "cannot be read: its path is invalid"
    ]
    assert failures("${file:binary}", tmp_path) == [read + "is not UTF-8 text"]
    assert failures("${file:big}", tmp_path) == [read + f"is larger than {MAX_FILE_BYTES} bytes"]


def test_what_came_from_outside_is_marked_and_masked_under_a_secret_name() -> None:
    value = expand("u:${A}:${API_TOKEN}")
    assert isinstance(value, SubstitutedText)
    assert value.template == "u:${A}:${API_TOKEN}"
    assert value.pieces == ("alpha", "tok-12345")
    assert mask("alpha and tok-12345") == "alpha and ***"


def test_defaults_are_the_recipes_own_words() -> None:
    value = expand("${NOPE:-in-plain-sight}")
    assert isinstance(value, SubstitutedText)
    assert value.pieces == ()
    assert mask("in-plain-sight") == "in-plain-sight"


def test_data_that_another_program_has_filled_is_not_expanded() -> None:
    source = {"type": "mlflow", "config": {"tracking_uri": "http://h/${HOME}"}}
    draft = draft_of_data({"name": "prod", "source": source}, "inside")
    assert draft.data == {"name": "prod", "sources": [source]}
    wrong = draft.origin.problem(("sources", 0, "config", "tracking_uri"), "is wrong")
    assert wrong.render("inside") == "inside: source.config.tracking_uri: is wrong"
