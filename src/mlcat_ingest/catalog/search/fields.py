"""The searchable fields of an entity: their names, and the texts that its aspects hold."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

from mlcat_ingest.catalog.schema.virtual import PLATFORM, Identity, default_aspect
from mlcat_ingest.metadata.aspects import (
    BROWSE_PATHS_V2,
    DATA_PLATFORM_INSTANCE,
    IS_LATEST,
    SUB_TYPES,
    VERSION_PROPERTIES,
)
from mlcat_ingest.metadata.mlflow_keys import PARENT_RUN, RUN_STATUS
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.metadata.reserved import FEATURES_PREFIX, OWN_PREFIX, SOURCE_KEY

_ALIASES: Final[Mapping[str, str]] = {
    "entityType": "_entityType",
    "entity": "_entityType",
    "env": "origin",
    BROWSE_PATHS_V2: "browsePathV2",
    SUB_TYPES: "typeNames",
    "createdAt": "created",
    "lastModifiedAt": "lastModified",
}
_NUMERIC_FIELDS: Final[Mapping[str, str]] = {
    "metrics": "metrics",
    "trainingMetrics": "metrics",
    "onlineMetrics": "onlineMetrics",
    "hyperParams": "hyperParams",
    "hyperParameters": "hyperParams",
    "params": "hyperParams",
}
_SPELLINGS: Final = {"hyperParams": "params"}
DURATION: Final = "duration_ms"
"""The numeric field with the duration of a run; it has no names."""


class FieldName(NamedTuple):
    """A field; if it is numeric, also the `name` of one metric or parameter: `metrics`, `auc`.

    The duration of a run has the empty name.
    """

    field: str
    name: str | None = None

    @property
    def column(self) -> str:
        """What queries and lists call one metric or parameter: `metrics.auc`, `params.depth`."""
        if self.field == DURATION:
            return DURATION
        return f"{_SPELLINGS.get(self.field, self.field)}.{self.name}"


def field_name(alias: str) -> FieldName:
    """Return the field of that name or alias; `.keyword` behind it changes nothing."""
    field, _, name = alias.partition(".")
    if name and field in _NUMERIC_FIELDS:
        return FieldName(_NUMERIC_FIELDS[field], name)
    bare = alias.removesuffix(".keyword")
    return FieldName(DURATION, "") if bare == DURATION else FieldName(_ALIASES.get(bare, bare))


NAME, DESCRIPTION, TAGS, PROPERTIES, URN = range(5)
COLUMNS: Final = ("name", "description", "tags", "properties", "urn")
"""The columns of text, the most telling first; a hit in an earlier one ranks higher."""

STEP: Final = "\N{SYMBOL FOR UNIT SEPARATOR}"
"""The first character of each step of a browse path."""

ANYWHERE: Final = "_text"
"""The field of a criterion on all of these columns; no aspect has it."""

_MAX_TEXT_CHARS: Final = 20_000
_MAX_VALUE_CHARS: Final = 500

Aspects = Mapping[str, Mapping[str, Any]]


SearchableText: TypeAlias = tuple[str, str, int | None, bool]
"""One text of an entity: its field, the text, its column, and whether it is a keyword.

The field is what people filter on and see, and the column where its words are indexed (None:
nowhere). A keyword is also indexed as it is, to filter on and to count.
"""


class _Rule(NamedTuple):
    path: tuple[str, ...]
    field: str
    column: int | None
    keyword: bool = False


# In the aspects that describe an entity: <kind>Properties, <kind>Info and their editable twins.
_BODY: Final = (
    _Rule(("fullName",), "name", NAME),
    _Rule(("email",), "email", NAME),
    _Rule(("description",), "description", DESCRIPTION),
    _Rule(("definition",), "description", DESCRIPTION),
    _Rule(("title",), "title", DESCRIPTION),
    _Rule(("comment",), "description", DESCRIPTION),
    _Rule(("type",), "type", TAGS, keyword=True),
    _Rule(("dataType",), "dataType", TAGS, keyword=True),
    _Rule(("version", "versionTag"), "version", TAGS, keyword=True),
    _Rule(("aliases", "versionTag"), "aliases", TAGS, keyword=True),
    _Rule(("tags",), "properties.tags", TAGS),
    _Rule(("apis",), "apis", PROPERTIES),
    _Rule(("env",), "origin", None, keyword=True),
)
_ASPECTS: Final[Mapping[str, tuple[_Rule, ...]]] = {
    name: tuple(
        _Rule(
            tuple(rule.path.split(".")),
            rule.field,
            None if rule.column is None else COLUMNS.index(rule.column),
            rule.keyword,
        )
        for rule in spec.searched
    )
    for name, spec in ASPECTS.items()
    if spec.searched
}
ASPECT_NAMES: Final = frozenset(_ASPECTS)
"""Aspects whose fields are in the table by name; others are searched by how their names end."""

BODY_ENDINGS: Final = ("Properties", "Info")
"""Aspects named so describe their entity: they have its name, its text and its properties."""

KEYWORD_FIELDS: Final = frozenset(
    rule.field for rules in (_BODY, *_ASPECTS.values()) for rule in rules if rule.keyword
) | {"_entityType", "platform", "origin", "status", PARENT_RUN, SOURCE_KEY, IS_LATEST}
"""Fields whose values are indexed as they are."""

_KEYWORDS: Final = {PARENT_RUN: PARENT_RUN, RUN_STATUS: "status"}
"""Custom property whose values are keywords, to their field."""

# Their URNs name an orchestrator, which is a platform by another name.
_FLOWS: Final = frozenset({"dataFlow", "dataJob"})

# Custom properties are held in this field of a describing aspect.
_CUSTOM: Final = "customProperties"


def is_indexed(aspect: str) -> bool:
    """Return whether anything in aspects of this name can be searched."""
    return aspect in ASPECT_NAMES or aspect.endswith(BODY_ENDINGS)


def find_all(urn: str, entity_type: str, aspects: Aspects) -> list[SearchableText]:
    """Return everything about an entity that can be searched, its name first."""
    identity = Identity.of(urn)
    found: list[SearchableText] = [
        ("name", _name(aspects) or identity.name, NAME, False),
        ("_entityType", entity_type, None, True),
    ]
    if identity.platform:
        found.append(("platform", f"{PLATFORM}{identity.platform}", None, True))
    elif entity_type in _FLOWS and (
        default := default_aspect(urn, entity_type, DATA_PLATFORM_INSTANCE)
    ):
        _match(found, default, _ASPECTS[DATA_PLATFORM_INSTANCE])
    if identity.environment:
        found.append(("origin", identity.environment, None, True))
    for aspect, value in aspects.items():
        if aspect.endswith(BODY_ENDINGS):
            _match(found, value, _BODY)
            found += _custom_properties(value.get(_CUSTOM))
            if aspect == VERSION_PROPERTIES and isinstance(latest := value.get(IS_LATEST), bool):
                found.append((IS_LATEST, "true" if latest else "false", None, True))
        _match(found, value, _ASPECTS.get(aspect, ()))
        if aspect == BROWSE_PATHS_V2:
            found += _places(value)
    found.append(("urn", urn, URN, False))
    return found


def _places(value: Mapping[str, Any]) -> Iterator[SearchableText]:
    """Yield the browse path, and those above it, as DataHub's index has them: `␟eu␟churn`."""
    place = ""
    for step in _texts(value, ("path", "id")):
        place += f"{STEP}{step}"
        yield _ALIASES[BROWSE_PATHS_V2], place, None, True


def _name(aspects: Aspects) -> str | None:
    """Return the name that people gave the entity."""
    for aspect, value in aspects.items():
        if aspect.endswith(BODY_ENDINGS) and not aspect.startswith("editable"):
            for field in ("displayName", "name", "title"):
                name = value.get(field)
                if isinstance(name, str) and name.strip():
                    return name
    return None


def _match(found: list[SearchableText], value: Mapping[str, Any], rules: Iterable[_Rule]) -> None:
    for path, field, column, keyword in rules:
        if path[0] in value:
            texts = _texts(value[path[0]], path[1:])
            found += [(field, text[:_MAX_TEXT_CHARS], column, keyword) for text in texts]


def _texts(value: Any, path: tuple[str, ...]) -> Iterable[str]:
    """Return the texts at the end of `path`, through lists; a flag is `true` or `false`."""
    if isinstance(value, list):
        return chain.from_iterable(_texts(item, path) for item in value)
    if path:
        within = isinstance(value, dict) and path[0] in value
        return _texts(value[path[0]], path[1:]) if within else ()
    if isinstance(value, bool):
        return ("true",) if value else ("false",)
    return (value,) if isinstance(value, str) and value else ()


def _custom_properties(custom: object) -> Iterator[SearchableText]:
    if not isinstance(custom, dict):
        return
    for key, value in custom.items():
        if not isinstance(value, str):
            continue
        # How the features of a model were found is for people to look for.
        if not key.startswith(OWN_PREFIX) or key.startswith(FEATURES_PREFIX):
            yield _CUSTOM, f"{key}={value[:_MAX_VALUE_CHARS]}", PROPERTIES, False
            if field := _KEYWORDS.get(key):
                yield field, value[:_MAX_VALUE_CHARS], None, True
        elif key == SOURCE_KEY:
            for text in value.split(","):
                yield SOURCE_KEY, text, None, True
