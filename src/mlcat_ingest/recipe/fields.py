"""The field types and the base class that every configuration in a recipe is made of.

A value that was substituted into a recipe counts as secret, unless the field that it fills is
public by its type: `PublicStr`, `RecipePath`, `RecipeUrl`, `ServiceUrl`, numbers, choices.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from textwrap import dedent
from types import UnionType
from typing import Annotated, Any, ClassVar, Self, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SecretStr,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import (
    no_info_after_validator_function,
)

from mlcat_ingest.recipe.secrets import SubstitutedText, mask_tree


class Public:
    """Marks a field whose value may be printed, wherever it came from."""


class NotContent:
    """Marks a field without effect on the written content: its change needs no full pass."""


class PublicUrl(Public):
    """Marks an address that may be printed, less the user name and password in it."""


def named(*keys: str) -> Any:
    """Return an optional field that a recipe may set by any of `keys`, the preferred one first."""
    return Field(default=None, validation_alias=AliasChoices(*keys))


def checked_text(text: str) -> str:
    """Return `text`, refused where it holds control characters."""
    if not text.isprintable():
        raise ValueError("contains a line break or another control character")
    return text


def printable_secret(secret: SecretStr | None) -> SecretStr | None:
    """Return `secret`, refused where it holds control characters."""
    # An HTTP header cannot carry these, and its error would be about headers, not about the token.
    if secret is not None:
        checked_text(secret.get_secret_value())
    return secret


def _substituted(value: Any) -> Any:
    # Otherwise the field would keep the text alone, not what it was read from.
    return SecretStr(value) if isinstance(value, SubstitutedText) else value


def current(secret: SecretStr) -> str:
    """Return the text of `secret`; the file that it comes from is read anew."""
    text = secret.get_secret_value()
    return text.now() if isinstance(text, SubstitutedText) else text


def none_if_empty(value: Any) -> Any:
    """Return None for an empty text, and anything else as it is."""
    return None if isinstance(value, str) and not value.strip() else value


def _http_address(text: str) -> str:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        # Its own sentences repeat parts of the address.
        raise ValueError("is not a valid address") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an address that begins with http:// or https://")
    if port == 0:
        raise ValueError("has an invalid port")
    return text.rstrip("/")


PublicStr = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1),
    AfterValidator(checked_text),
    Public(),
]
"""A text that is no secret: a name, a platform instance, a pattern."""

_DURATION = re.compile(r"(\d{1,6})\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def seconds_in(text: str) -> int | None:
    """Return the seconds of a duration such as `30m`, `12h` or `7d`, None where `text` is none."""
    duration = _DURATION.fullmatch(text)
    return None if duration is None else int(duration[1]) * _SECONDS[duration[2]]


class Duration(str):
    """A number of seconds, minutes, hours, days or weeks: `30s`, `30m`, `12h`, `7d`, `4w`."""

    __slots__ = ("seconds",)
    seconds: int

    def __new__(cls, text: str) -> Self:
        """Keep the text, as the recipe has it, and its seconds.

        Raises:
            ValueError: it is none.
        """
        seconds = seconds_in(text)
        if seconds is None:
            raise ValueError("is not a duration (30s, 30m, 12h, 7d, 4w)")
        duration = super().__new__(cls, text)
        duration.seconds = seconds
        return duration

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Self], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        del source
        return no_info_after_validator_function(cls, handler.generate_schema(PublicStr))


OptionalStr = Annotated[PublicStr | None, BeforeValidator(none_if_empty)]
"""A text that is no secret; an empty one is none."""

OptionalSecret = Annotated[
    SecretStr | None,
    BeforeValidator(_substituted),
    BeforeValidator(none_if_empty),
    AfterValidator(printable_secret),
]
"""A token or a password; an empty one is none."""

ServiceUrl = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1),
    AfterValidator(_http_address),
    PublicUrl(),
]
"""The http(s) address of a service, without a trailing slash."""


def names_of(name: str, field: FieldInfo) -> list[str]:
    """Return the keys of a field in a recipe, the preferred key first."""
    alias = field.validation_alias
    names = alias.choices if isinstance(alias, AliasChoices) else [alias or name]
    return [*map(str, names)]


def field_named(model: type[BaseModel], key: str) -> FieldInfo | None:
    """Return the field of `model` that `key` means in a recipe, None where there is none."""
    for name, field in model.model_fields.items():
        if key == name or key in names_of(name, field):
            return field
    return None


def members(annotation: Any) -> Iterator[Any]:
    """Yield the types in a type annotation: without `Annotated`, unions as their members."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from members(get_args(annotation)[0])
    elif origin in {Union, UnionType}:
        for part in get_args(annotation):
            yield from members(part)
    else:
        yield annotation


def below(annotation: Any, step: str | int) -> Any:
    """Return the type annotation of the value under a key or index, or None."""
    for member in members(annotation):
        origin, arguments = get_origin(member), get_args(member)
        if isinstance(step, int):
            if origin in {list, tuple, set, frozenset}:
                return arguments[0]
        elif isinstance(member, type) and issubclass(member, BaseModel):
            field = field_named(member, step)
            if field is None or not field.metadata:
                return None if field is None else field.annotation
            # Pydantic takes an outer Annotated apart; put together, one walk fits all.
            annotated: Any = Annotated
            return annotated[field.annotation, *field.metadata]
        elif origin in {dict, Mapping}:
            return arguments[1]
    return None


@cache
def _docstrings_of_fields(model: type[BaseModel]) -> dict[str, str]:
    # `use_attribute_docstrings` would parse the source of a model whenever it is imported.
    import ast

    texts: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, RecipeModel):
            try:
                [definition] = ast.parse(dedent(getsource(base))).body
            except OSError:
                continue  # made without a source file, as a plug-in may be
            for field, text in pairwise(getattr(definition, "body", ())):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    texts[ast.unparse(field.target)] = cleandoc(ast.literal_eval(text.value))
    return texts


class RecipeModel(BaseModel):
    """Base of every configuration: strict, frozen, and masked wherever it is printed."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        populate_by_name=True,
        # A model that another contains, or that no recipe names, needs no validator of its own.
        defer_build=True,
        validate_default=True,
    )

    key_hints: ClassVar[Mapping[str, str]] = {}
    """For keys of other tools: the alternative."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            shown = {name or "": value}
            yield name, value if isinstance(value, BaseModel) else mask_tree(shown)[name or ""]

    @model_serializer(mode="wrap")
    def _masked_json(
        self, handler: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return dict(mask_tree(data)) if info.mode == "json" else data

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema with all alternative names of the fields."""
        reference = handler(core_schema)
        schema = handler.resolve_ref_schema(reference)
        properties = schema.get("properties", {})
        descriptions = _docstrings_of_fields(cls)
        for name, field in cls.model_fields.items():
            first, *others = names_of(name, field)
            if name in descriptions:
                properties[first].setdefault("description", descriptions[name])
            for other in others:
                properties[other] = {**properties[first], "deprecated": True}
            if others and first in schema.get("required", ()):
                schema["required"].remove(first)
                choice = {"anyOf": [{"required": [key]} for key in (first, *others)]}
                schema.setdefault("allOf", []).append(choice)
        return reference


def content_of(config: RecipeModel) -> dict[str, Any]:
    """Return the values of all fields that affect the written content."""
    outside = {
        name
        for name, field in type(config).model_fields.items()
        if any(isinstance(mark, NotContent) for mark in field.metadata)
    }
    return config.model_dump(exclude=outside)
