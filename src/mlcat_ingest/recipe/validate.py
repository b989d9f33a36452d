"""Raw data to a typed configuration; its faults become problems in our own words.

Pydantic's own text is not used: it repeats input values, and a recipe's values may be secrets.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mlcat_ingest.recipe.fields import RecipeModel, below, field_named, members, names_of
from mlcat_ingest.recipe.problems import Loc, Origin, Problem, nearest
from mlcat_ingest.recipe.secrets import MASK, SHORTEST_MASKED, SubstitutedText, is_secret_name, mask
from mlcat_ingest.recipe.values import BASE_DIR

ModelT = TypeVar("ModelT", bound=BaseModel)

_SENTENCES = {
    "missing": "is required",
    "string_type": "must be text; put it in quotes",
    "string_too_short": "must have {min_length} or more characters",
    "string_too_long": "must have {max_length} or fewer characters",
    "string_pattern_mismatch": "must match {pattern}",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "set_type": "must be a list",
    "too_short": "must have {min_length} or more entries",
    "too_long": "must have {max_length} or fewer entries",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "path_type": "must be the path of a file or folder",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "none_required": "must be absent",
}
_COMMON_HINTS = {
    "stateful_ingestion": "is an option of DataHub's own runner; delete it",
}
_MOMENT = "must be a date or a time such as 2026-01-31 or 2026-01-31T12:00:00Z"


def validate_config(
    model: type[ModelT], raw: Mapping[str, Any], prefix: Loc, origin: Origin
) -> tuple[ModelT | None, list[Problem]]:
    """Return `raw` as a `model`, or None and its problems with their places.

    `prefix` is the place of `raw` in the recipe. Places whose `${...}` already failed are left
    out: their problem is reported as that.
    """
    try:
        return model.model_validate(raw, context={BASE_DIR: origin.base_dir}), []
    except ValidationError as error:
        details = error.errors(include_url=False)
    problems: dict[Loc, list[str]] = {}
    for detail in details:
        loc = _place(detail, raw, model)
        sentences = problems.setdefault(loc, [])
        if (sentence := _sentence(detail, loc, model, raw)) not in sentences:
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


def _sentence(detail: ErrorDetails, loc: Loc, model: type[BaseModel], raw: Any) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return unknown_key(str(loc[-1]), _model_at(model, loc[:-1]))
    if kind == "value_error":
        return _without_secrets(str(context["error"]), detail["input"], raw)
    if kind == "string_too_short" and context["min_length"] == 1:
        return "must not be empty"
    if kind.startswith(("date", "time")):
        return _MOMENT
    if (sentence := _SENTENCES.get(kind)) is not None:
        return sentence.format_map({name: _short(value) for name, value in context.items()})
    return f"is invalid ({kind.replace('_', ' ')})"


def _short(bound: Any) -> Any:
    """Return a bound as the recipe's author would write it: 3600 for 3600.0."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def unknown_key(key: str, model: type[BaseModel] | None) -> str:
    """Return the sentence about a key that `model` does not have, with the key that was meant."""
    if model is None:
        return "is not a known key"
    hints = model.key_hints if issubclass(model, RecipeModel) else {}
    if (hint := {**_COMMON_HINTS, **hints}.get(key)) is not None:
        return hint
    for name, field in model.model_fields.items():
        if key in names_of(name, field):
            return f"is another name of `{names_of(name, field)[0]}`; keep one"
    known = sorted(names_of(name, field)[0] for name, field in model.model_fields.items())
    if (meant := nearest(key, known)) is not None:
        return f"is not a known key; did you mean `{meant}`?"
    return f"is not a known key; known here: {', '.join(known)}"


def _model_at(model: type[BaseModel], loc: Loc) -> type[BaseModel] | None:
    """Return the model at `loc` below `model`, None if another type is there."""
    annotation: Any = model
    for step in loc:
        annotation = below(annotation, step)
    models = (m for m in members(annotation) if isinstance(m, type) and issubclass(m, BaseModel))
    return next(models, None)


def _without_secrets(sentence: str, value: Any, raw: Any) -> str:
    """Return a validator's sentence without the secrets and the value that it was about."""
    for text in sorted(set(_secrets(raw)), key=len, reverse=True):
        sentence = sentence.replace(text, MASK)
    if isinstance(value, str) and len(value) >= SHORTEST_MASKED:
        # Inside a longer word it is one of our own words, such as a choice that was meant.
        sentence = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", MASK, sentence)
    return mask(sentence)


def _secrets(raw: Any, *, secret: bool = False) -> Iterator[str]:
    if isinstance(raw, Mapping):
        for key, item in raw.items():
            yield from _secrets(item, secret=secret or is_secret_name(str(key)))
    elif isinstance(raw, list | tuple):
        for item in raw:
            yield from _secrets(item, secret=secret)
    elif raw and isinstance(raw, str) and (secret or isinstance(raw, SubstitutedText)):
        yield str(raw)
        if isinstance(raw, SubstitutedText):
            yield from filter(None, raw.pieces)
