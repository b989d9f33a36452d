"""Criteria of a search, resolved to predicates: by field, values and comparison."""

from collections.abc import Callable, Mapping
from dataclasses import replace
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
)

from mlcat_ingest.catalog.schema.tables import edge, entity, keyword, numeric_field, searched
from mlcat_ingest.catalog.search.fields import (
    ANYWHERE,
    BODY_ENDINGS,
    DESCRIPTION,
    KEYWORD_FIELDS,
    NAME,
    PROPERTIES,
    field_name,
)
from mlcat_ingest.catalog.search.predicates import (
    EXACT,
    NOWHERE,
    PATTERNS,
    EntityPredicate,
    always,
    begins_with,
    has_keyword,
    has_text,
    matching,
    number_compares,
    text_compares,
)
from mlcat_ingest.catalog.search.query import phrase, term
from mlcat_ingest.catalog.search.request import Condition, Criterion
from mlcat_ingest.catalog.search.tokens import fold, tokenize
from mlcat_ingest.metadata.aspects.markers import Edge
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.metadata.reserved import SOURCE_KEY
from mlcat_ingest.metadata.shapes import fields

MAX_TOKENS: Final = 200
"""Most keywords that are looked for as tokens of the full-text index; more are looked up in SQL."""

_TIMES: Final = {"created": "created_ms", "lastModified": "modified_ms"}
_ALWAYS_THERE: Final = frozenset({"name", "urn", *_TIMES})
_TEXTS: Final = {"description": DESCRIPTION, "customProperties": PROPERTIES}
_RELATIVES: Final = frozenset(
    {Condition.ANCESTORS_INCL, Condition.DESCENDANTS_INCL, Condition.RELATED_INCL}
)
_URN: Final = "urn:li:"
_NAMED_SPACES: Final = ("mlFeature", "mlPrimaryKey")
_URN_PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    rule.field: tuple(f"{_URN}{entity_type}:" for entity_type in rule.entity_types)
    for spec in ASPECTS.values()
    for rule in spec.searched
    if rule.entity_types
}
"""The prefixes that make a URN of a name, in each field that holds URNs."""


def _edge_fields() -> Mapping[str, list[str]]:
    relationships: dict[str, set[str]] = {}
    for name, spec in ASPECTS.items():
        for field in () if spec.type is None else fields(spec.type).values():
            for marker in field.markers:
                if not isinstance(marker, Edge):
                    continue
                own = field.name if marker.at is None and name.endswith(BODY_ENDINGS) else None
                if search_field := marker.search or own:
                    relationships.setdefault(search_field, set()).add(marker.relationship)
    return {field: sorted(names) for field, names in relationships.items()}


_EDGES: Final = {**_edge_fields(), "features": ["Contains"], "primaryKeys": ["KeyedBy"]}
"""Searchable field to the relationships that it stands for."""


def resolve(connection: Connection, criterion: Criterion) -> EntityPredicate:
    """Return the predicate of `criterion`; no entity has a field that does not exist.

    Cost: at most a few SQL statements, on keywords.
    """
    field, name = field_name(criterion.field)
    if name is not None:
        predicate = _number(connection, field, name, criterion)
    elif field == "customProperties" and _is_about_source(criterion):
        values = tuple(value.partition("=")[2] for value in criterion.values)
        predicate = _keywords(connection, SOURCE_KEY, criterion.condition, values)
    elif field in KEYWORD_FIELDS:
        predicate = _keywords(connection, field, criterion.condition, criterion.values)
    elif field in _EDGES:
        predicate = _edges(connection, _EDGES[field], criterion)
    elif field in _ALWAYS_THERE and criterion.condition is Condition.EXISTS:
        predicate = always(holds=True)
    elif field in _OTHERS:
        predicate = _OTHERS[field](criterion)
    else:
        predicate = always(holds=False)
    return replace(predicate, negated=criterion.negated)


def _time(criterion: Criterion) -> EntityPredicate:
    column = _TIMES[field_name(criterion.field).field]
    return _on_entity(
        lambda row: number_compares(row.c[column], criterion.condition, criterion.values)
    )


def _on_entity(condition: Callable[[FromClause], ColumnElement[bool]]) -> EntityPredicate:
    """Return the predicate for a condition on the entity's own row of the index."""
    row = searched.alias()
    return EntityPredicate(lambda _: condition(searched), select(row.c.id).where(condition(row)))


def _number(connection: Connection, field: str, name: str, criterion: Criterion) -> EntityPredicate:
    query = select(keyword.c.id).where(keyword.c.field == field, keyword.c.value == name)
    keyword_id = connection.scalar(query)
    if keyword_id is None:
        return always(holds=False)
    table = numeric_field
    having = table.c.keyword_id == keyword_id
    if criterion.condition is not Condition.EXISTS:
        holds = number_compares(table.c.value, criterion.condition, criterion.values)
        having = and_(having, holds)
    return EntityPredicate(
        check=lambda at: exists(table.c.value).where(table.c.entity_id == at, having),
        among=select(table.c.entity_id).where(having),
    )


def _is_about_source(criterion: Criterion) -> bool:
    prefix = f"{SOURCE_KEY}="
    return bool(criterion.values) and all(value.startswith(prefix) for value in criterion.values)


def _keywords(
    connection: Connection, field: str, condition: Condition, values: tuple[str, ...]
) -> EntityPredicate:
    if condition in _RELATIVES:
        values = _with_relatives(connection, values, condition) if field == "container" else values
        condition = Condition.EQUAL
    query = select(keyword.c.id).where(keyword.c.field == field)
    if field == "_entityType":
        values = _entity_types(connection, values) if condition in _OF_WHOLE_VALUES else values
    if condition is not Condition.EXISTS:
        values = (*values, *_as_urns(field, condition, values))
        query = query.where(text_compares(keyword.c.value, condition, values))
    ids = connection.scalars(query.limit(MAX_TOKENS + 1)).all()
    return has_keyword(query, ids if len(ids) <= MAX_TOKENS else None)


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
    stored = connection.scalars(select(keyword.c.value).where(keyword.c.field == "_entityType"))
    return tuple(
        name for name in stored if {name.lower(), name.lower().removeprefix("datahub")} & wanted
    )


def _with_relatives(
    connection: Connection, values: tuple[str, ...], condition: Condition
) -> tuple[str, ...]:
    """Return `values` and the containers one step below or above them, or both."""
    parts = select(entity.c.urn, edge.c.destination).join(edge, edge.c.source_id == entity.c.id)
    parts = parts.where(edge.c.relationship == "IsPartOf", entity.c.entity_type == "container")
    urns = list(values)
    if condition is not Condition.ANCESTORS_INCL:
        below = connection.execute(parts.where(edge.c.destination.in_(values)))
        urns += [row.urn for row in below]
    if condition is not Condition.DESCENDANTS_INCL:
        above = connection.execute(parts.where(entity.c.urn.in_(values)))
        urns += [row.destination for row in above]
    return tuple(dict.fromkeys(urns))


def _edges(
    connection: Connection, relationships: list[str], criterion: Criterion
) -> EntityPredicate:
    condition = criterion.condition
    holds: ColumnElement[bool] = edge.c.relationship.in_(relationships)
    if condition is not Condition.EXISTS:
        values = list(criterion.values)
        if condition in _OF_WHOLE_VALUES:
            values += _urns_named(connection, values)
        holds = and_(text_compares(edge.c.destination, condition, values), holds)
    return EntityPredicate(
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


def _text(criterion: Criterion) -> EntityPredicate:
    """Return the predicate for a text, of which the words count and not the signs between them."""
    column = _TEXTS[field_name(criterion.field).field]
    begins = criterion.condition not in {Condition.CONTAIN, Condition.END_WITH}
    ends = criterion.condition not in {Condition.CONTAIN, Condition.START_WITH}
    if criterion.condition is Condition.EXISTS:
        return has_text(phrase((), within=column, begins=True))
    if criterion.condition not in _OF_WHOLE_VALUES | PATTERNS:
        return always(holds=False)
    phrases = [
        phrase(tokens, within=column, begins=begins, ends=ends, prefix=not ends)
        for tokens, _ in map(tokenize, criterion.values)
        if tokens
    ]
    return has_text(" OR ".join(phrases) or NOWHERE)


def _anywhere(criterion: Criterion) -> EntityPredicate:
    """Return the predicate for words in any of the texts; with START_WITH their beginnings."""
    prefix = criterion.condition is Condition.START_WITH
    terms = (term(value, prefix=prefix) for value in criterion.values)
    return has_text(" OR ".join(one.match() for one in terms if one) or NOWHERE)


def _name(criterion: Criterion) -> EntityPredicate:
    values = [fold(value) for value in criterion.values]
    return _on_entity(lambda row: text_compares(row.c.name, criterion.condition, values))


def _namespace(criterion: Criterion) -> EntityPredicate:
    """Return the predicate for the first part of the URN of a feature or a primary key."""
    values = tuple(
        f"{_URN}{entity_type}:({value},"
        for entity_type in _NAMED_SPACES
        for value in criterion.values
    )
    return _urn(replace(criterion, values=values, condition=Condition.START_WITH))


def _urn(criterion: Criterion) -> EntityPredicate:
    # Under another name: a search that sorts by URN has the table already.
    named = entity.alias()
    if criterion.condition is Condition.START_WITH:
        compared = or_(false(), *(begins_with(named.c.urn, value) for value in criterion.values))
    else:
        compared = text_compares(named.c.urn, criterion.condition, criterion.values)
    return EntityPredicate(
        check=lambda at: exists(named.c.id).where(named.c.id == at, compared),
        among=select(named.c.id).where(compared),
    )


_OTHERS: Final[Mapping[str, Callable[[Criterion], EntityPredicate]]] = {
    ANYWHERE: _anywhere,
    "name": _name,
    "urn": _urn,
    "featureNamespace": _namespace,
    "description": _text,
    "customProperties": _text,
    "created": _time,
    "lastModified": _time,
}
