"""One criterion to the leaf that stands for it: which field, which values, compared how."""

from collections.abc import Callable, Mapping
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    and_,
    exists,
    false,
    or_,
    select,
    true,
)

from mlcat_ingest.catalog.schema.search_tables import figure, keyword, searched
from mlcat_ingest.catalog.schema.tables import edge, entity
from mlcat_ingest.catalog.search.compare import EXACT, begins_with, figure_compares, text_compares
from mlcat_ingest.catalog.search.fields import (
    BODY_ENDINGS,
    DESCRIPTION,
    KEYWORD_FIELDS,
    NAME,
    PROPERTIES,
)
from mlcat_ingest.catalog.search.leaves import (
    NOWHERE,
    Always,
    Holding,
    Keywords,
    Leaf,
    Matching,
    RequiredLeaf,
    matching,
)
from mlcat_ingest.catalog.search.names import field_name
from mlcat_ingest.catalog.search.request import Condition, Criterion
from mlcat_ingest.catalog.search.tokens import fold, tokenize
from mlcat_ingest.catalog.search.words import phrase
from mlcat_ingest.metadata.aspects.markers import Edge
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.metadata.reserved import SOURCE_KEY
from mlcat_ingest.metadata.shapes import fields

MAX_TOKENS: Final = 200
"""Most keywords that are looked for as tokens of the full-text index; more are looked up in SQL."""

_FLAGS: Final = frozenset({"removed", "deprecated"})
_TIMES: Final = {"created": "created_ms", "lastModified": "modified_ms"}
_TEXTS: Final = {"description": DESCRIPTION, "customProperties": PROPERTIES}
_RELATIVES: Final = frozenset(
    {Condition.ANCESTORS_INCL, Condition.DESCENDANTS_INCL, Condition.RELATED_INCL}
)
_URN: Final = "urn:li:"
_URN_PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    one.field: tuple(f"{_URN}{entity_type}:" for entity_type in one.entity_types)
    for spec in ASPECTS.values()
    for one in spec.searched
    if one.entity_types
}
"""How a name that is no URN is spelled as one, in each field that holds URNs."""


def _edge_fields() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for name, spec in ASPECTS.items():
        for field in () if spec.type is None else fields(spec.type).values():
            for marker in field.markers:
                if not isinstance(marker, Edge):
                    continue
                own = field.name if marker.at is None and name.endswith(BODY_ENDINGS) else None
                if searched := marker.search or own:
                    found.setdefault(searched, set()).add(marker.relationship)
    return {field: tuple(sorted(relationships)) for field, relationships in found.items()}


_EDGES: Final = _edge_fields()
"""Searchable field to the relationships that it stands for."""


def resolve(connection: Connection, criterion: Criterion) -> RequiredLeaf:
    """Return what `criterion` comes down to; no entity has a field that does not exist.

    Cost: at most a few SQL statements, on keywords.
    """
    field, name = field_name(criterion.field)
    if field in _FLAGS:
        return _flag(connection, field, criterion)
    if name is not None:
        leaf = _figures(connection, field, name, criterion)
    elif field == "customProperties" and _is_about_source(criterion):
        values = tuple(value.partition("=")[2] for value in criterion.values)
        leaf = _keywords(connection, SOURCE_KEY, criterion.condition, values)
    elif field in KEYWORD_FIELDS:
        leaf = _keywords(connection, field, criterion.condition, criterion.values)
    elif field in _EDGES:
        leaf = _edges(connection, _EDGES[field], criterion)
    else:
        leaf = _OTHERS.get(field, _nothing)(criterion)
    return RequiredLeaf(leaf, criterion.negated)


def _nothing(_criterion: Criterion) -> Leaf:
    return Always(holds=False)


def _time(criterion: Criterion) -> Leaf:
    column = _TIMES[field_name(criterion.field).field]
    if criterion.condition is Condition.EXISTS:
        return Always(holds=True)
    return _on_entity(
        lambda row: figure_compares(row.c[column], criterion.condition, criterion.values)
    )


def _on_entity(condition: Callable[[FromClause], ColumnElement[bool]]) -> Leaf:
    """Return the leaf for a condition on the entity's own row of the index."""
    row = searched.alias()
    return Holding(lambda _: condition(searched), select(row.c.id).where(condition(row)))


def _figures(connection: Connection, field: str, name: str, criterion: Criterion) -> Leaf:
    query = select(keyword.c.id).where(keyword.c.field == field, keyword.c.value == name)
    number = connection.scalar(query)
    if number is None:
        return Always(holds=False)
    holds = (
        true()
        if criterion.condition is Condition.EXISTS
        else figure_compares(figure.c.value, criterion.condition, criterion.values)
    )
    having = and_(figure.c.keyword_id == number, holds)
    return Holding(
        check=lambda at: exists(figure.c.value).where(figure.c.entity_id == at, having),
        among=select(figure.c.entity_id).where(having),
    )


def _flag(connection: Connection, field: str, criterion: Criterion) -> RequiredLeaf:
    """Return the part for a flag; an entity that does not carry it has it on false."""
    asked = {value.lower() for value in criterion.values} & {"true", "false"}
    if len(asked) != 1 or criterion.condition is Condition.EXISTS:
        return RequiredLeaf(Always(holds=bool(asked) or not criterion.values), criterion.negated)
    carrying = _keywords(connection, field, Condition.EQUAL, ("true",))
    return RequiredLeaf(carrying, criterion.negated is (asked == {"true"}))


def _is_about_source(criterion: Criterion) -> bool:
    prefix = f"{SOURCE_KEY}="
    return bool(criterion.values) and all(value.startswith(prefix) for value in criterion.values)


def _keywords(
    connection: Connection, field: str, condition: Condition, values: tuple[str, ...]
) -> Leaf:
    if condition in _RELATIVES:
        values = _with_relatives(connection, values, condition) if field == "container" else values
        condition = Condition.EQUAL
    query = select(keyword.c.id).where(keyword.c.field == field)
    if field == "_entityType":
        values = _entity_types(connection, values) if condition in _OF_WHOLE_VALUES else values
    if condition is not Condition.EXISTS:
        spelled = [*values, *_as_urns(field, condition, values)]
        query = query.where(text_compares(keyword.c.value, condition, spelled))
    numbers = tuple(connection.scalars(query.limit(MAX_TOKENS + 1)))
    return Keywords(query, numbers if len(numbers) <= MAX_TOKENS else None)


_OF_WHOLE_VALUES: Final = EXACT | {Condition.IEQUAL}


def _as_urns(field: str, condition: Condition, values: tuple[str, ...]) -> list[str]:
    if condition not in {*_OF_WHOLE_VALUES, Condition.START_WITH}:
        return []
    return [
        f"{prefix}{value}"
        for value in values
        if not value.startswith(_URN)
        for prefix in _URN_PREFIXES.get(field, ())
    ]


def _entity_types(connection: Connection, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entity types that `values` mean, `MLMODEL_GROUP` as well as `mlModelGroup`."""
    wanted = {value.replace("_", "").lower() for value in values}
    held = connection.scalars(select(keyword.c.value).where(keyword.c.field == "_entityType"))
    return tuple(
        one
        for one in held
        if one.lower() in wanted or one.lower().removeprefix("datahub") in wanted
    )


def _with_relatives(
    connection: Connection, values: tuple[str, ...], condition: Condition
) -> tuple[str, ...]:
    """Return `values` and the containers one step below or above them, or both."""
    parts = select(entity.c.urn, edge.c.destination).join(edge, edge.c.source_id == entity.c.id)
    parts = parts.where(edge.c.relationship == "IsPartOf", entity.c.entity_type == "container")
    found = list(values)
    if condition is not Condition.ANCESTORS_INCL:
        below = connection.execute(parts.where(edge.c.destination.in_(values)))
        found += [row.urn for row in below]
    if condition is not Condition.DESCENDANTS_INCL:
        above = connection.execute(parts.where(entity.c.urn.in_(values)))
        found += [row.destination for row in above]
    return tuple(dict.fromkeys(found))


def _edges(connection: Connection, relationships: tuple[str, ...], criterion: Criterion) -> Leaf:
    condition = criterion.condition
    holds: ColumnElement[bool] = edge.c.relationship.in_(relationships)
    if condition is not Condition.EXISTS:
        values = list(criterion.values)
        if condition in _OF_WHOLE_VALUES:
            values += _urns_named(connection, values)
        holds = and_(text_compares(edge.c.destination, condition, values), holds)
    return Holding(
        check=lambda at: exists(edge.c.aspect).where(edge.c.source_id == at, holds),
        among=select(edge.c.source_id).where(holds),
    )


def _urns_named(connection: Connection, values: list[str]) -> list[str]:
    """Return the URNs of entities whose names are `values`, as people refer to groups."""
    names = [tokenize(value).parts for value in values if not value.startswith(_URN)]
    exact = [phrase(tokens, within=NAME, begins=True, ends=True) for tokens in names if tokens]
    if not exact:
        return []
    query = select(entity.c.urn).where(entity.c.id.in_(matching(" OR ".join(exact))))
    return list(connection.scalars(query.limit(MAX_TOKENS)))


def _text(criterion: Criterion) -> Leaf:
    """Return the leaf for a field of which the words count, not what stands between them."""
    column = _TEXTS[field_name(criterion.field).field]
    begins = criterion.condition not in {Condition.CONTAIN, Condition.END_WITH}
    ends = criterion.condition not in {Condition.CONTAIN, Condition.START_WITH}
    if criterion.condition is Condition.EXISTS:
        return Matching(phrase((), within=column, begins=True))
    if criterion.condition not in {*_OF_WHOLE_VALUES, *_PATTERNS}:
        return Always(holds=False)
    phrases = [
        phrase(tokens, within=column, begins=begins, ends=ends, prefix=not ends)
        for tokens, _ in map(tokenize, criterion.values)
        if tokens
    ]
    return Matching(" OR ".join(phrases) or NOWHERE)


_PATTERNS: Final = frozenset({Condition.CONTAIN, Condition.START_WITH, Condition.END_WITH})


def _name(criterion: Criterion) -> Leaf:
    if criterion.condition is Condition.EXISTS:
        return Always(holds=True)
    values = [fold(value) for value in criterion.values]
    return _on_entity(lambda row: text_compares(row.c.name, criterion.condition, values))


def _urn(criterion: Criterion) -> Leaf:
    if criterion.condition is Condition.EXISTS:
        return Always(holds=True)
    # Under another name: a search that sorts by URN has the table already.
    named = entity.alias()
    if criterion.condition is Condition.START_WITH:
        compared = or_(false(), *(begins_with(named.c.urn, value) for value in criterion.values))
    else:
        compared = text_compares(named.c.urn, criterion.condition, criterion.values)
    return Holding(
        check=lambda at: exists(named.c.id).where(named.c.id == at, compared),
        among=select(named.c.id).where(compared),
    )


_OTHERS: Final[Mapping[str, Callable[[Criterion], Leaf]]] = {
    "name": _name,
    "urn": _urn,
    "description": _text,
    "customProperties": _text,
    "created": _time,
    "lastModified": _time,
}
