from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import AfterValidator, AliasChoices, BaseModel, Field, SecretStr, model_validator

from mlcat_ingest.recipe.fields import (
    OptionalSecret,
    PublicStr,
    RecipeModel,
    ServiceUrl,
    below,
    field_named,
    members,
    names_of,
)
from mlcat_ingest.recipe.loader import Loc, Origin
from mlcat_ingest.recipe.secrets import SubstitutedText
from mlcat_ingest.recipe.validate import _unknown_key, validate_config


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def repeats(text: str) -> str:
    raise ValueError(f"no good: {text}")


def wants_a_choice(text: str) -> str:
    raise ValueError(f"{text} is none of TECHNICAL_OWNER, DATAOWNER")


class Inner(RecipeModel):
    key_hints: ClassVar[Mapping[str, str]] = {"old": "went away; delete it"}
    size: int = Field(default=1, ge=1, le=9)
    names: list[str] = Field(default_factory=list)


class Model(RecipeModel):
    text: str = "x"
    filled: PublicStr = "x"
    coded: Annotated[str, Field(min_length=2, max_length=3, pattern="^a")] = "ab"
    number: float = Field(default=1.0, gt=0, lt=3600)
    flag: bool = False
    choice: Literal["a", "b"] = "a"
    colour: Colour = Colour.RED
    inner: Inner = Inner()
    many: list[Inner] = Field(default=[], max_length=1)
    by_name: dict[str, Inner] = Field(default_factory=dict)
    either: bool | int | None = None
    same: list[int] | list[str] | None = None
    nothing: None = None
    when: datetime | None = None
    bytes_: bytes = Field(default=b"", alias="bytes")
    token: OptionalSecret = None
    server: ServiceUrl = "http://h"
    bad: Annotated[str, AfterValidator(repeats)] | None = None
    kind: Annotated[str, AfterValidator(wants_a_choice)] | None = None
    raw: Any = None
    waits: float = Field(default=1, validation_alias=AliasChoices("waits_s", "waits_sec"))

    @model_validator(mode="after")
    def _raw_stays_out(self) -> "Model":
        if self.raw:
            raise ValueError(f"no good: {self.raw}")
        return self


def problems(raw: dict[str, Any], **origin: Any) -> list[str]:
    config, found = validate_config(Model, raw, ("c",), Origin(**origin))
    assert config is None
    return [problem.render() for problem in found]


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ({"text": 1}, "c.text: must be text; put it in quotes"),
        ({"filled": " "}, "c.filled: must not be empty"),
        ({"text": None}, "c.text: must not be empty"),
        ({"filled": "a\x07"}, "c.filled: contains a line break or another control character"),
        ({"coded": "a"}, "c.coded: must have 2 or more characters"),
        ({"coded": "aaaa"}, "c.coded: must have 3 or fewer characters"),
        ({"coded": "bb"}, "c.coded: must match ^a"),
        ({"number": "x"}, "c.number: must be a number"),
        ({"number": 0}, "c.number: must be more than 0"),
        ({"number": 3600}, "c.number: must be less than 3600"),
        ({"flag": "maybe"}, "c.flag: must be true or false"),
        ({"choice": "c"}, "c.choice: must be 'a' or 'b'"),
        ({"colour": "green"}, "c.colour: must be 'red' or 'blue'"),
        ({"inner": []}, "c.inner: must be a mapping of keys to values"),
        ({"inner": {"size": 1.5}}, "c.inner.size: must be a whole number"),
        ({"inner": {"size": 10}}, "c.inner.size: must be 9 or less"),
        ({"inner": {"size": 0}}, "c.inner.size: must be 1 or more"),
        ({"inner": {"names": "a"}}, "c.inner.names: must be a list"),
        ({"many": [{}, {}]}, "c.many: must have 1 or fewer entries"),
        ({"many": [{"sise": 1}]}, "c.many[0].sise: is not a known key; did you mean `size`?"),
        ({"by_name": {"k": {"old": 1}}}, "c.by_name.k.old: went away; delete it"),
        ({"by_name": 1}, "c.by_name: must be a mapping of keys to values"),
        ({"either": []}, "c.either: must be true or false, or must be a whole number"),
        ({"same": 5}, "c.same: must be a list"),
        ({"nothing": 1}, "c.nothing: must be absent"),
        (
            {"when": "soon"},
            "c.when: must be a date or a time such as 2026-01-31 or 2026-01-31T12:00:00Z",
        ),
        ({"bytes": 1}, "c.bytes: is invalid (bytes type)"),
        ({"token": "a\nb"}, "c.token: contains a line break or another control character"),
        ({"token": 5}, "c.token: must be text; put it in quotes"),
        (
            {"server": "ftp://h"},
            "c.server: must be an address that begins with http:// or https://",
        ),
        (
            {"server": "http:///path"},
            "c.server: must be an address that begins with http:// or https://",
        ),
        ({"server": "http://h:0"}, "c.server: has an invalid port"),
        ({"server": "http://h:99999"}, "c.server: is not a valid address"),
        ({"server": "http://[x"}, "c.server: is not a valid address"),
        ({"bad": "the value"}, "c.bad: no good: ***"),
        ({"bad": "no"}, "c.bad: no good: no"),
        ({"kind": "OWNER"}, "c.kind: *** is none of TECHNICAL_OWNER, DATAOWNER"),
        ({"raw": ["a"], "token": "sesame"}, "c: no good: ['a']"),
        ({"raw": SubstitutedText("v", "${V}", ("v", ""))}, "c: no good: ***"),
        ({"raw": {"password": ["v1"]}}, "c: no good: {'password': ['***']}"),
        ({"waits_s": 1, "waits_sec": 2}, "c.waits_sec: is another name of `waits_s`; keep one"),
        (
            {"stateful_ingestion": {}},
            "c.stateful_ingestion: is an option of DataHub's own runner; delete it",
        ),
    ],
)
def test_sentences(raw: dict[str, Any], sentence: str) -> None:
    assert problems(raw) == [sentence]


def test_everything_wrong_is_reported_at_once_at_its_line() -> None:
    lines: dict[Loc, int] = {("c", "text"): 3, ("c", "inner", "size"): 5}
    config, found = validate_config(
        Model, {"text": 1, "inner": {"size": 0}, "nope": 1}, ("c",), Origin("r", lines=lines)
    )
    assert config is None
    assert [(p.loc, p.line) for p in found] == [
        (("c", "text"), 3),
        (("c", "inner", "size"), 5),
        (("c", "nope"), None),
    ]


def test_what_could_not_be_filled_in_is_not_reported_twice() -> None:
    broken = frozenset({("c", "number")})
    assert problems({"number": "${X}"}, broken=broken) == []


def test_a_valid_one() -> None:
    raw = {"waits_sec": "2", "flag": "on", "token": " "}
    config, found = validate_config(Model, raw, (), Origin())
    assert found == []
    assert config is not None
    assert (config.waits, config.flag, config.token) == (2.0, True, None)
    config, found = validate_config(Model, {"server": " https://h:1/gms/ "}, (), Origin())
    assert config is not None
    assert config.server == "https://h:1/gms"


class Required(BaseModel):
    needed: str
    nested: "Required | None" = None


def test_a_missing_key_is_at_the_place_where_it_should_be() -> None:
    _, found = validate_config(Required, {"nested": {}}, (), Origin())
    assert [p.render() for p in found] == ["needed: is required", "nested.needed: is required"]


def test_unknown_keys_list_what_is_known() -> None:
    assert _unknown_key("zzz", Inner) == "is not a known key; known here: names, size"
    assert _unknown_key("zzz", Required) == "is not a known key; known here: needed, nested"
    assert _unknown_key("zzz", None) == "is not a known key"


def test_errors_of_foreign_models_are_ours_too() -> None:
    class Strict(BaseModel, extra="forbid"):
        a: dict[str, dict[str, SecretStr]] = {}
        b: tuple[int, ...] = ()

    raw = {"a": {"x": {"y": 1}}, "b": [1, "two"], "c": 1}
    _, found = validate_config(Strict, raw, (), Origin())
    assert [p.render() for p in found] == [
        "a.x.y: must be text; put it in quotes",
        "b[1]: must be a whole number",
        "c: is not a known key; known here: a, b",
    ]


def test_a_key_below_something_that_is_no_model() -> None:
    class Other(BaseModel, extra="forbid"):
        x: int = 1

    class Holder(BaseModel, extra="forbid"):
        deep: dict[str, list[Other]] = {}

    _, found = validate_config(Holder, {"deep": {"k": [{"y": 1}]}}, (), Origin())
    assert [p.render() for p in found] == ["deep.k[0].y: is not a known key; known here: x"]


def test_names_of_fields() -> None:
    fields = Model.model_fields
    assert names_of("text", fields["text"]) == ["text"]
    assert names_of("bytes_", fields["bytes_"]) == ["bytes"]
    assert names_of("waits", fields["waits"]) == ["waits_s", "waits_sec"]
    assert field_named(Model, "waits_sec") is fields["waits"]
    assert field_named(Model, "waits") is fields["waits"]
    assert field_named(Model, "nope") is None
    assert field_named(Model, "bytes_") is fields["bytes_"]


@pytest.mark.parametrize(
    ("annotation", "step", "inside"),
    [
        (dict[str, list[Inner] | None], "k", list[Inner] | None),
        (Mapping[str, int] | None, "k", int),
        (list[Inner] | None, 0, Inner),
        (tuple[Inner, ...], 3, Inner),
        (Annotated[list[int], "mark"], 0, int),
        (Inner, "size", None),
        (Inner, "nope", None),
        (Inner, 0, None),
        (Required | None, "needed", str),
        (int, "k", None),
        (dict[str, int], 0, None),
        (list[int], "k", None),
        (Any, "k", None),
    ],
)
def test_what_a_type_says_below_a_step(annotation: Any, step: str | int, inside: Any) -> None:
    found = below(annotation, step)
    if annotation is Inner and step == "size":
        assert list(members(found)) == [int]
    else:
        assert found == inside


def test_configurations_are_masked_where_they_are_printed() -> None:
    class Config(RecipeModel):
        api_key: str = "plain text"
        url: str = "http://u:p@h/x"
        inner: Inner = Inner()

    shown = repr(Config())
    assert "plain text" not in shown
    assert "u:p" not in shown
    assert "inner=Inner(size=1, names=[])" in shown
    assert Config().model_dump_json() == (
        '{"api_key":"***","url":"http://***@h/x","inner":{"size":1,"names":[]}}'
    )
    assert Config().model_dump()["api_key"] == "plain text"
