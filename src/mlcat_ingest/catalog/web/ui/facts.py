"""The facts on an entity's overview: owners, tags, links, metrics, parameters, properties."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.rows import Aspects, display_name
from mlcat_ingest.catalog.web.ui.text import created_at, entity_href, scalar, stamp, web_address
from mlcat_ingest.metadata.aspects.governance import (
    DOMAINS,
    GLOBAL_TAGS,
    GLOSSARY_TERMS,
    INSTITUTIONAL_MEMORY,
    OWNERSHIP,
)
from mlcat_ingest.metadata.aspects.ml import SOURCE_CODE
from mlcat_ingest.metadata.reserved import OWN_PREFIX

_REFERENCES: Final = (
    ("Owners", OWNERSHIP, "owners", "owner"),
    ("Tags", GLOBAL_TAGS, "tags", "tag"),
    ("Glossary terms", GLOSSARY_TERMS, "terms", "urn"),
)
_LABELLED_TAGS: Final = frozenset({"Tags", "Glossary terms"})


@dataclass(frozen=True, slots=True)
class Piece:
    """A text, and the address it links to if it does; `outside` addresses are not ours."""

    text: str
    href: str | None = None
    outside: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """A labelled line of the overview, shown as labels where `as_tags`."""

    label: str
    pieces: tuple[Piece, ...]
    as_tags: bool = False


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A line of a table of names and values."""

    name: str
    value: str


def facts_of(store: Store, aspects: Aspects, properties: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Return the facts that the entity has, in the order of the page; missing ones are left out.

    Cost: one SQL statement, for the names of what is referred to.
    """
    facts = [
        _line("Model type", properties.get("type")),
        _line("Data type", properties.get("dataType")),
        _line("Version", _version(properties.get("version"))),
        _line("Category", properties.get("category")),
        _line("Created", created_at(properties)),
        _line("Last modified", stamp(properties.get("lastModified"))),
        *_references(store, aspects, properties),
        Fact("Source", tuple(_outside(properties.get("externalUrl")))),
        Fact("Code", tuple(_code(_value(aspects, SOURCE_CODE)))),
        Fact("Links", tuple(_links(_value(aspects, INSTITUTIONAL_MEMORY)))),
    ]
    return tuple(fact for fact in facts if fact.pieces)


def metrics(properties: Mapping[str, Any]) -> tuple[NamedValue, ...]:
    """Return the training metrics, by name; online ones are marked as such."""
    online = ((f"{name} (online)", value) for name, value in _named(properties, "onlineMetrics"))
    return _sorted([*_named(properties, "trainingMetrics"), *online])


def hyper_parameters(properties: Mapping[str, Any]) -> tuple[NamedValue, ...]:
    """Return the hyper-parameters of both spellings, by name."""
    older = properties.get("hyperParameters")
    pairs = [(name, scalar(value)) for name, value in older.items()] if older else []
    return _sorted(dict([*pairs, *_named(properties, "hyperParams")]).items())


def custom_properties(properties: Mapping[str, Any], *, ours: bool) -> tuple[NamedValue, ...]:
    """Return the custom properties, by name: only this package's notes, or only the others."""
    pairs = (properties.get("customProperties") or {}).items()
    return _sorted(
        (name, scalar(value)) for name, value in pairs if name.startswith(OWN_PREFIX) is ours
    )


def _sorted(pairs: Iterable[tuple[str, str]]) -> tuple[NamedValue, ...]:
    return tuple(NamedValue(name, value) for name, value in sorted(pairs))


def _named(properties: Mapping[str, Any], field: str) -> Iterator[tuple[str, str]]:
    for item in properties.get(field) or []:
        yield scalar(item.get("name")), scalar(item.get("value"))


def _value(aspects: Aspects, name: str) -> Mapping[str, Any]:
    return aspects[name].value if name in aspects else {}


def _line(label: str, text: object) -> Fact:
    return Fact(label, (Piece(text),) if isinstance(text, str) and text else ())


def _version(version: object) -> str:
    return scalar(version.get("versionTag")) if isinstance(version, Mapping) else ""


def _references(store: Store, aspects: Aspects, properties: Mapping[str, Any]) -> Iterator[Fact]:
    referred = {
        label: [entry[key] for entry in _value(aspects, aspect).get(field) or [] if key in entry]
        for label, aspect, field, key in _REFERENCES
    }
    referred["Domain"] = list(_value(aspects, DOMAINS).get("domains") or [])
    referred["Sources"] = list(properties.get("sources") or [])
    stored = store.get_many([urn for urns in referred.values() for urn in urns])
    for label, urns in referred.items():
        pieces = (Piece(display_name(urn, stored.get(urn, {})), entity_href(urn)) for urn in urns)
        yield Fact(label, tuple(pieces), as_tags=label in _LABELLED_TAGS)


def _outside(address: object, text: object = None) -> Iterator[Piece]:
    """Yield a link to somewhere else; an address that is not safe to link to stays a text."""
    if isinstance(address, str) and address:
        yield Piece(text if isinstance(text, str) and text else address, web_address(address), True)


def _code(source_code: Mapping[str, Any]) -> Iterator[Piece]:
    for entry in source_code.get("sourceCode") or []:
        yield from _outside(entry.get("sourceCodeUrl"))


def _links(memory: Mapping[str, Any]) -> Iterator[Piece]:
    for entry in memory.get("elements") or []:
        yield from _outside(entry.get("url"), entry.get("description"))
