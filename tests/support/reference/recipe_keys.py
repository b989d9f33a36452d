"""The keys of a recipe, from the models that read recipes."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from mlcat_ingest.metadata.aspects.governance import OwnershipType
from mlcat_ingest.metadata.urn import FABRICS
from mlcat_ingest.recipe import fields, rules, values
from mlcat_ingest.recipe.fields import Duration, OldKey, PublicUrl, names_of
from mlcat_ingest.sources import datasets
from mlcat_ingest.sources.plugins import load
from support.reference.blocks import Heading, Page
from support.reference.docstrings import attribute_docstrings
from support.reference.markdown import bullet, inline, paragraph, sentences, table

ROW: Final = 180
"""Characters in the cells of a row; of a longer meaning it has the beginning."""
_CELL: Final = 110
"""Characters of a meaning of several sentences."""
_DEFAULT: Final = "Default: "

ALIASES: Final[Mapping[str, tuple[ModuleType, str]]] = {
    "regular expression": (values, "Pattern"),
    "environment": (values, "Fabric"),
    "ownership type": (values, "OwnerType"),
    "tag": (values, "TagRef"),
    "glossary term": (values, "TermRef"),
    "domain": (values, "DomainRef"),
    "owner": (values, "OwnerRef"),
    "structured property": (values, "PropertyRef"),
    "platform": (datasets, "Platform"),
    "field": (rules, "FieldName"),
    "policy": (rules, "Policy"),
}
"""Types with a name of their own: what a reader calls them, and what the code does."""
_TYPES: Final[Mapping[str, tuple[ModuleType, str]]] = {
    "text": (fields, "PublicStr"),
    "secret": (fields, "OptionalSecret"),
    "duration": (fields, "Duration"),
    "path": (values, "RecipePath"),
    "address": (values, "RecipeUrl"),
    **ALIASES,
}


def keys(argument: str, page: Page) -> str:
    """Return what a model is, the table of its keys, and more about those that need it."""
    model = load(argument)
    rows, notes = [], []
    for name, info in _own_fields(model, page):
        key, words = names_of(name, info)[0], _words(info.annotation, tuple(info.metadata), page)
        start, rest = _split(info, ROW - len(key + words + _default(info)))
        rows.append((f"`{key}`", words, _default(info), inline(start)))
        if not _overrides(model, name, page):
            rest = " ".join([rest, *_other_names(name, info)]).strip()
        if rest:
            notes.append(bullet(f"`{key}`: {inline(rest)}"))
    parts = [paragraph(inline(text)) for text in (inspect.getdoc(model) or "").split("\n\n")]
    parts.append(table(("key", "type", "default", "meaning"), rows))
    parts.append("\n".join(notes))
    bases = [f"[{title}](#{anchor})" for title, anchor in _inherited(model, page)]
    if bases:
        parts.append(f"It also has the keys of {' and '.join(bases)}.")
    return "\n\n".join(filter(None, parts))


def models_on(page: Page) -> list[type[BaseModel]]:
    """Return the models whose keys a page lists."""
    return [load(argument) for argument in page.arguments("keys")]


def _own_fields(model: type[BaseModel], page: Page) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the fields that no other table of the page has."""
    elsewhere = {base for base in models_on(page) if base is not model}
    declared: dict[str, type] = {}
    for kind in reversed(model.__mro__):
        declared |= dict.fromkeys(vars(kind).get("__annotations__", {}), kind)
    own = [one for one in model.model_fields.items() if declared[one[0]] not in elsewhere]
    yield from sorted(own, key=lambda one: _overrides(model, one[0], page))


def _overrides(model: type[BaseModel], name: str, page: Page) -> bool:
    """Say whether a field is also in the table of a base class."""
    tables = models_on(page)
    return any(base in tables and name in base.model_fields for base in model.__mro__[1:])


def _inherited(model: type[BaseModel], page: Page) -> Iterator[Heading]:
    for base in model.__mro__[1:]:
        if _place(base) in page.headings:
            yield page.headings[_place(base)]


def _place(model: type) -> str:
    return f"{model.__module__}:{model.__name__}"


def _other_names(name: str, info: FieldInfo) -> Iterator[str]:
    old = {one.name: one for one in info.metadata if isinstance(one, OldKey)}
    key, *others = names_of(name, info)
    names = ", ".join(f"`{one}`" for one in others if one not in old)
    if names:
        yield f"Also called {names}."
    for one in old.values():
        yield one.description(key)


def _split(info: FieldInfo, width: int) -> tuple[str, str]:
    """Return the first sentence of a description, and the others but a short default."""
    first, *others = sentences(info.description or "")
    if len(first) > width:
        return f"{_beginning(first, width)} (see below).", " ".join([first, *others])
    if info.default is None or info.default is PydanticUndefined:
        others = [one for one in others if not _short_default(one)]
    while others and len(first) + len(others[0]) < _CELL:
        first = f"{first} {others.pop(0)}"
    return first, " ".join(others)


def _beginning(sentence: str, width: int) -> str:
    """Return a sentence up to the first mark that ends a thought."""
    for mark in (";", ":", " (", ","):
        start, found, _ = sentence.partition(mark)
        if found and len(start) < width - len(" (see below)."):
            return start
    return sentence


def _short_default(sentence: str) -> str:
    text = sentence.removeprefix(_DEFAULT).rstrip(".")
    return text if sentence.startswith(_DEFAULT) and len(text) < 40 else ""


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    if info.default is None or info.default_factory not in {None, list, dict}:
        stated = [one for one in sentences(info.description or "") if one.startswith(_DEFAULT)]
        if stated:
            return inline(_short_default(stated[0])) or "see below"
        if info.default is None:
            return ""
    value = info.get_default(call_default_factory=True)
    return f"`{_literal(value)}`"


def _literal(value: Any) -> str:
    if isinstance(value, BaseModel):
        return "{}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(f'"{one}"' for one in value) + "]"
    return str(value)


def _words(annotation: Any, metadata: tuple[Any, ...], page: Page) -> str:
    """Return what a value has to be, in words."""
    for mark in metadata:
        if getattr(mark, "json_schema_input_type", PydanticUndefined) is not PydanticUndefined:
            return _words(mark.json_schema_input_type, (), page)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _words(arguments[0], (*metadata, *arguments[1:]), page)
    name = _alias(annotation, metadata)
    if name is not None:
        return _link(name, name, page)
    if origin in {Union, UnionType}:
        return _any_of(_words(one, metadata, page) for one in arguments if one is not type(None))
    if origin is Literal:
        return _choice(arguments)
    if origin in {list, tuple}:
        return f"list: {_words(arguments[0], (), page)}"
    if origin is dict and arguments[1] is Any:
        return "mapping"
    if origin is dict:
        key, value = (_words(one, (), page) for one in arguments)
        return f"mapping: {key} → {value}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"[mapping](#{page.headings[_place(annotation)].anchor})"
    return _plain(annotation, metadata, page)


def _any_of(kinds: Iterable[str]) -> str:
    *first, last = dict.fromkeys(kinds)
    alone = " or ".join(first)
    if last == f"list: {alone}":
        return f"{alone}; or a list of these"
    return " or ".join([*first, last])


def _alias(annotation: Any, metadata: tuple[Any, ...]) -> str | None:
    for name, (module, alias) in ALIASES.items():
        kind = getattr(module, alias)
        if kind is annotation:
            return name
        marks = [
            one for one in getattr(kind, "__metadata__", ()) if isinstance(one, AfterValidator)
        ]
        if marks and marks[-1] in metadata:
            return name
    return None


def _plain(annotation: Any, metadata: tuple[Any, ...], page: Page) -> str:
    if any(isinstance(one, PublicUrl) for one in metadata):
        return _link("address", "address", page)
    words = {bool: "boolean", int: "integer", float: "number", str: "text"}
    words |= {Path: "path", SecretStr: "secret", Duration: "duration"}
    word = words[annotation]
    bounds = {
        bound: getattr(one, bound)
        for one in metadata
        for bound in ("gt", "ge", "le")
        if hasattr(one, bound)
    }
    return _link(word, word, page) + _range(bounds)


def _range(bounds: Mapping[str, Any]) -> str:
    least, most = bounds.get("ge"), bounds.get("le")
    texts = []
    if "gt" in bounds:
        texts.append(f"above {bounds['gt']:g}")
    if least is not None and most is not None:
        return f", {least:,} to {most:,}"
    texts += [f"{least:,} or more"] if least is not None else []
    texts += [f"at most {most:,}"] if most is not None else []
    return "".join(f", {text}" for text in texts)


def _choice(options: tuple[Any, ...]) -> str:
    *first, last = (f"`{one}`" for one in options)
    return f"{', '.join(first)} or {last}" if first else last


def _link(text: str, name: str, page: Page) -> str:
    linked = name in _TYPES and name != "text"
    return f"[{text}](#{page.headings['types'].anchor})" if linked else text


def types(argument: str, page: Page) -> str:
    """Return what the named types of the tables are, from the code's own words for them."""
    del argument, page
    values_of = {"environment": sorted(FABRICS), "ownership type": sorted(get_args(OwnershipType))}
    lines = []
    for name, (module, alias) in _TYPES.items():
        listed = ", ".join(f"`{one}`" for one in values_of.get(name, ()))
        text = f"**{name}**: {inline(_words_on(module, alias))}"
        lines.append(bullet(f"{text} {listed}".rstrip()))
    return "\n".join(lines)


def _words_on(module: ModuleType, alias: str) -> str:
    """Return the docstring of a type: below its name, or that of its class."""
    below = attribute_docstrings(inspect.getsource(module)).get(alias)
    return below or inspect.getdoc(getattr(module, alias)) or ""
