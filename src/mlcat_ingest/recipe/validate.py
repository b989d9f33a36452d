"""Raw data to a typed configuration; its faults become problems in our own words.

Pydantic's own text is not used: it repeats input values, and a recipe's values may be secrets.

Secrets of a configuration are masked in everything that is printed. A secret is a value in a field
for secrets or under a secret name, the password of an address, or a value that was substituted into
a field that is not public by its type. If a word of letters is a secret and also in a public place,
only its own place is masked: user and password of a database are often one word, which is part of
most names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from mlcat_ingest.core.redaction import redact_url, user_info
from mlcat_ingest.recipe.fields import (
    Duration,
    Public,
    RecipeModel,
    below,
    field_named,
    members,
    names_of,
)
from mlcat_ingest.recipe.loader import Loc, Origin, Problem, nearest, path_text
from mlcat_ingest.recipe.secrets import (
    MASK,
    SECRETS,
    SHORTEST_MASKED,
    SubstitutedText,
    is_secret_name,
    mask,
)
from mlcat_ingest.recipe.values import BASE_DIR

ModelT = TypeVar("ModelT", bound=BaseModel)

_SENTENCES = {
    "missing": "is required",
    "string_type": "must be text; put it in quotes",
    "string_too_short": "must have {min_length} or more characters",
    "string_too_long": "must have {max_length} or fewer characters",
    "string_pattern_mismatch": "must match {pattern}",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    "finite_number": "must be a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type"), "must be a list"),
    "too_short": "must have {min_length} or more entries",
    "too_long": "must have {max_length} or fewer entries",
    **dict.fromkeys(("dict_type", "model_type"), "must be a mapping of keys to values"),
    "path_type": "must be the path of a file or folder",
    **dict.fromkeys(("literal_error", "enum"), "must be {expected}"),
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "none_required": "must be absent",
}
_COMMON_HINTS = {
    "stateful_ingestion": "is an option of DataHub's own runner; delete it",
}
Models: TypeAlias = Sequence[tuple[Loc, type[BaseModel]]]
"""Models, each with the place in the recipe of what it describes."""

_MOMENT = "must be a date or a time such as 2026-01-31 or 2026-01-31T12:00:00Z"


def validate_config(
    model: type[ModelT],
    raw: Mapping[str, Any],
    prefix: Loc,
    origin: Origin,
    others: Models = (),
) -> tuple[ModelT | None, list[Problem]]:
    """Return `raw` as a `model`, or None and its problems with their places.

    `prefix` is the place of `raw` in the recipe; a key that is wrong there is looked for in the
    `others`, too. Places whose `${...}` already failed are left out: their problem is reported as
    that.
    """
    try:
        return model.model_validate(raw, context={BASE_DIR: origin.base_dir}), []
    except ValidationError as error:
        details = error.errors(include_url=False)
    problems: dict[Loc, list[str]] = {}
    for detail in details:
        loc = _place(detail, raw, model)
        sentences = problems.setdefault(loc, [])
        sentence = _sentence(detail, raw)
        if detail["type"] == "extra_forbidden":
            around = prefix + loc[:-1]
            nearest_places = _places_of(str(loc[-1]), around, ((prefix, model), *others))
            places = [path_text(origin.as_written(place)) for place in nearest_places]
            sentence = _unknown_key(str(loc[-1]), _model_at(model, loc[:-1]), places)
        if sentence not in sentences:
            sentences.append(sentence)
    return None, [
        origin.problem(prefix + loc, ", or ".join(sentences))
        for loc, sentences in problems.items()
        if origin.as_written(prefix + loc) not in origin.broken
    ]


def _place(detail: ErrorDetails, raw: Any, model: type[BaseModel]) -> Loc:
    """Return where in `raw` the error is; steps that only name a union's member are left out."""
    steps: list[str | int] = []
    for named in detail["loc"]:
        step = _as_written(named, raw, _model_at(model, tuple(steps)))
        if _is_in(raw, step):
            raw = raw[step]
        elif not (detail["type"] == "missing" and step == detail["loc"][-1]):
            continue
        steps.append(step)
    return tuple(steps)


def _as_written(step: str | int, raw: Any, model: type[BaseModel] | None) -> str | int:
    """Return the key in `raw` of a field of `model`; any other step unchanged."""
    if model is None or isinstance(step, int) or _is_in(raw, step):
        return step
    field = field_named(model, step)
    names = [] if field is None else names_of(step, field)
    return next((name for name in names if _is_in(raw, name)), step)


def _is_in(raw: Any, step: str | int) -> bool:
    if isinstance(raw, Mapping):
        return step in raw
    return isinstance(raw, list | tuple) and isinstance(step, int) and step < len(raw)


def _sentence(detail: ErrorDetails, raw: Any) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "value_error":
        return _without_secrets(str(context["error"]), detail["input"], raw)
    is_null = kind == "string_type" and detail["input"] is None
    if is_null or (kind == "string_too_short" and context["min_length"] == 1):
        return "must not be empty"
    if kind.startswith(("date", "time")):
        return _MOMENT
    if (sentence := _SENTENCES.get(kind)) is not None:
        # A bound as the recipe's author would write it: 3600 for 3600.0.
        whole = {k: int(v) for k, v in context.items() if isinstance(v, float) and v.is_integer()}
        return sentence.format_map({**context, **whole})
    return f"is invalid ({kind.replace('_', ' ')})"


def _unknown_key(key: str, model: type[BaseModel] | None, places: Sequence[str] = ()) -> str:
    """Return the sentence about a key that `model` does not have, with the key that was meant.

    `places` are those in the recipe where the key is known.
    """
    if model is None:
        return "is not a known key"
    hints = model.key_hints if issubclass(model, RecipeModel) else {}
    if (hint := {**_COMMON_HINTS, **hints}.get(key)) is not None:
        return hint
    for name, field in model.model_fields.items():
        if key in names_of(name, field):
            return f"is another name of `{names_of(name, field)[0]}`; keep one"
    if places:
        return f"is not a known key here; it belongs at `{'` or `'.join(places)}`"
    known = sorted(names_of(name, field)[0] for name, field in model.model_fields.items())
    if (meant := nearest(key, known)) is not None:
        return f"is not a known key; did you mean `{meant}`?"
    return f"is not a known key; known here: {', '.join(known)}"


def _places_of(key: str, around: Loc, models: Models) -> list[Loc]:
    """Return the places nearest to `around` where `models` and what they contain have `key`."""
    found: dict[Loc, int] = {}
    pending = [(loc, model, {model}) for loc, model in models]
    while pending:
        loc, model, outer = pending.pop()
        for name, field in model.model_fields.items():
            place = (*loc, names_of(name, field)[0])
            if key in names_of(name, field):
                found[place] = _levels_between(loc, around)
            inside = [(place, inner) for inner in _models_in(field.annotation)]
            inside += [((*place, 0), item) for item in _models_in(below(field.annotation, 0))]
            pending += [(at, one, {*outer, one}) for at, one in inside if one not in outer]
    least = min(found.values(), default=0)
    return sorted((place for place, steps in found.items() if steps == least), key=str)


def _levels_between(one: Loc, other: Loc) -> int:
    """Return how many keys lead up from a place and down to another one."""
    steps, others = ([step for step in loc if isinstance(step, str)] for loc in (one, other))
    while steps and others and steps[0] == others[0]:
        del steps[0], others[0]
    return len(steps) + len(others)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    return (m for m in members(annotation) if isinstance(m, type) and issubclass(m, BaseModel))


def _model_at(model: type[BaseModel], loc: Loc) -> type[BaseModel] | None:
    annotation: Any = model
    for step in loc:
        annotation = below(annotation, step)
    return next(_models_in(annotation), None)


def _without_secrets(sentence: str, value: Any, raw: Any) -> str:
    """Return a validator's sentence without the secrets and the value that it was about."""
    texts: set[str] = set()
    for leaf, secret in _leaves(raw):
        if isinstance(leaf, SubstitutedText):
            texts.update((str(leaf), *leaf.pieces))
        elif secret and isinstance(leaf, str):
            texts.add(leaf)
    for text in sorted(filter(None, texts), key=len, reverse=True):
        sentence = sentence.replace(text, MASK)
    if isinstance(value, str) and len(value) >= SHORTEST_MASKED:
        # Inside a longer word it is one of our own words, such as a choice that was meant.
        sentence = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", MASK, sentence)
    return mask(sentence)


def _leaves(value: Any, *, secret: bool = False) -> Iterator[tuple[Any, bool]]:
    """Yield each value in a configuration, or its raw data, and whether its name is a secret's."""
    if isinstance(value, BaseModel | Mapping):
        for name, item in value if isinstance(value, BaseModel) else value.items():
            yield from _leaves(item, secret=secret or is_secret_name(str(name)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item, secret=secret)
    else:
        yield value, secret


_SIGNS_IN = re.compile(r"auth|key|sess|sig", re.IGNORECASE)
_WORD = re.compile(r"(?<![^\W_])[A-Za-z]+(?![^\W_])")


def mask_secrets(config: BaseModel, raw: Mapping[str, Any]) -> None:
    """Mask the secrets of a valid `config`, made of `raw`, in all that is printed from now on."""
    secrets, public = list(_secret_values(config)), list(_words_of_headers(config))
    for field, text, is_inside in _texts(type(config), raw):
        secrets += _secrets_in_url(text)
        if _is_public(field):
            public += _public_words(text)
        elif isinstance(text, SubstitutedText) and not is_inside:
            secrets += text.pieces
    SECRETS.add(*secrets, public=public)


def _secret_values(config: BaseModel) -> Iterator[str]:
    """Yield the text of every secret field, and of every text under a secret name."""
    for value, secret in _leaves(config):
        if isinstance(value, SecretStr):
            yield value.get_secret_value()
        elif isinstance(value, str):
            yield from [value] if secret else _secrets_in_url(value)


def _public_words(text: str) -> list[str]:
    """Return the words of letters in a field that is public itself, without secrets."""
    if "://" in text:
        return _WORD.findall(f"{user_info(text)[0]} {redact_url(text)}")
    names_secret = isinstance(text, SubstitutedText) and text.names_secret
    return [] if names_secret else _WORD.findall(text)


def _words_of_headers(value: Any) -> Iterator[str]:
    """Yield the words of letters that are values of headers and the like without a secret name."""
    if isinstance(value, BaseModel):
        for _, item in value:
            yield from _words_of_headers(item)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            secret = is_secret_name(str(name)) or _SIGNS_IN.search(str(name))
            if isinstance(item, SecretStr) and not secret:
                yield from filter(_WORD.fullmatch, [item.get_secret_value()])


def _texts(annotation: Any, raw: Any, *, public: bool = False) -> Iterator[tuple[Any, str, bool]]:
    """Yield the type of each text, the text, and whether what it is part of is public."""
    inside = public or _is_public(annotation)
    if isinstance(raw, Mapping):
        for key, item in raw.items():
            yield from _texts(below(annotation, key), item, public=inside)
    elif isinstance(raw, list | tuple):
        for i, item in enumerate(raw):
            yield from _texts(below(annotation, i), item, public=inside)
    elif isinstance(raw, str):
        yield annotation, raw, public


def _is_public(annotation: Any) -> bool:
    """Return whether no value of that type is a secret: it is marked so, or one of few."""
    origin = get_origin(annotation)
    if origin is Annotated:
        marked = any(isinstance(mark, Public) for mark in annotation.__metadata__)
        return marked or _is_public(get_args(annotation)[0])
    if origin in {Union, UnionType}:
        return all(map(_is_public, get_args(annotation)))
    if isinstance(annotation, type):
        return issubclass(annotation, (bool, int, float, Enum, Duration, NoneType))
    return origin is Literal


def _secrets_in_url(text: str) -> Iterator[str]:
    _, password = user_info(text)
    if password:
        yield from (password, unquote(password))
    try:
        query = urlsplit(text).query
    except ValueError:
        return
    yield from (value for name, value in parse_qsl(query) if is_secret_name(name))
