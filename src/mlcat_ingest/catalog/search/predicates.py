"""Criteria of a search as predicates: SQL conditions, expressions of the full-text index."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import eq, ge, gt, le, lt
from typing import Any, Final

from sqlalchemy import (
    Column,
    Text,
    and_,
    cast,
    exists,
    false,
    func,
    literal,
    not_,
    or_,
    select,
    true,
    type_coerce,
)
from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import ColumnElement, FromClause, Select

from mlcat_ingest.catalog.schema.tables import (
    EVERY,
    edge,
    entity,
    fts,
    keyword,
    keyword_token,
    member,
    numeric_field,
    profile,
    searched,
)
from mlcat_ingest.catalog.search.document import to_number
from mlcat_ingest.catalog.search.fields import (
    ANYWHERE,
    BODY_ENDINGS,
    DESCRIPTION,
    DURATION,
    KEYWORD_FIELDS,
    NAME,
    PROPERTIES,
    field_name,
)
from mlcat_ingest.catalog.search.query import MIN_PREFIX_CHARS, phrase, term
from mlcat_ingest.catalog.search.request import MATCH_ALL, Condition, Criterion
from mlcat_ingest.catalog.search.tokens import fold, tokenize
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.metadata.reserved import SOURCE_KEY

_Compares = Callable[[Any, Any], ColumnElement[bool]]

_RELATIONAL: Final[Mapping[Condition, _Compares]] = {
    Condition.GREATER_THAN: gt,
    Condition.GREATER_THAN_OR_EQUAL_TO: ge,
    Condition.LESS_THAN: lt,
    Condition.LESS_THAN_OR_EQUAL_TO: le,
}
_OF_TEXT: Final[Mapping[Condition, _Compares]] = {
    Condition.IEQUAL: lambda column, value: column.collate("NOCASE") == value,
    Condition.CONTAIN: lambda column, value: column.contains(value, autoescape=True),
    Condition.START_WITH: lambda column, value: column.startswith(value, autoescape=True),
    Condition.END_WITH: lambda column, value: column.endswith(value, autoescape=True),
    **_RELATIONAL,
}

EXACT: Final = frozenset({Condition.EQUAL, Condition.IN})
"""Conditions that a value is one of several; there may be many of these."""

PATTERNS: Final = frozenset({Condition.CONTAIN, Condition.START_WITH, Condition.END_WITH})
"""Conditions on a part of a text."""


def _text_compares(
    column: ColumnElement[str], condition: Condition, values: Iterable[str]
) -> ColumnElement[bool]:
    """Return the condition that any of `values` compares so with a text; patterns know no case."""
    values = tuple(values)
    if condition in EXACT:
        return column.in_(values)
    compares: _Compares = _OF_TEXT.get(condition, eq)
    return or_(false(), *(compares(column, value) for value in values))


def begins_with(column: ColumnElement[str], value: str) -> ColumnElement[bool]:
    """Return the condition that a text begins so, case and all, which an index of it can tell."""
    return column.between(value, f"{value}\U0010ffff")


def _any_number_compares(
    column: ColumnElement[Any], condition: Condition, values: Iterable[str]
) -> ColumnElement[bool]:
    """Return the condition that any of `values` compares so with a number.

    Numbers compare with numbers, whatever their spelling; only patterns look at the text.
    """
    if condition in EXACT:
        return column.in_([to_number(value) for value in values])
    return or_(
        false(), *(_number_compares(column, condition, to_number(value)) for value in values)
    )


def _number_compares(
    column: ColumnElement[Any], condition: Condition, value: float | str
) -> ColumnElement[bool]:
    if condition in _RELATIONAL:
        if isinstance(value, str):
            return false()
        # In SQLite every text is greater than every number, and the empty one is the least text.
        return and_(_RELATIONAL[condition](column, value), column < literal("", Text))
    if condition in PATTERNS:
        return _OF_TEXT[condition](cast(column, Text), str(value))
    if condition is Condition.IEQUAL and isinstance(value, str):
        return type_coerce(column, Text).collate("NOCASE") == value
    return column == value


EVERYWHERE: Final = f'"{EVERY}"'
"""The expression that matches every entity."""

NOWHERE: Final = '"=none"'
"""The expression that matches none."""


@dataclass(frozen=True, slots=True)
class EntityPredicate:
    """A condition on entities, in the forms that the database can use.

    Attributes:
        check: the SQL condition on the entity with an id, `search_entity` being joined to it.
        among: the query for the ids of all entities that satisfy it, if that is worth while.
        match: the expression of the full-text index, None where the index does not know.
        profile: the SQL condition on a profile, None where profiles do not decide it.
        negated: whether the condition must not hold.
        scans: whether `among` reads a whole table, for want of an index.
    """

    check: Callable[[ColumnElement[int]], ColumnElement[bool]]
    among: Select[tuple[int]] | None = None
    match: str | None = None
    profile: ColumnElement[bool] | None = None
    negated: bool = False
    scans: bool = False

    def condition(
        self, entity_id: ColumnElement[int], *, individually: bool
    ) -> ColumnElement[bool]:
        """Return the condition on an entity: checked `individually`, or looked up in `among`."""
        if individually or self.among is None:
            condition = self.check(entity_id)
        else:
            condition = entity_id.in_(self.among)
        return not_(condition) if self.negated else condition

    def profile_condition(self) -> ColumnElement[bool]:
        """Return the condition on a profile, where profiles decide it."""
        condition = true() if self.profile is None else self.profile
        return not_(condition) if self.negated else condition


def _always(*, holds: bool) -> EntityPredicate:
    """Return the predicate of every entity, or else of none."""
    constant = true() if holds else false()
    expression = EVERYWHERE if holds else NOWHERE
    return EntityPredicate(lambda _: constant, match=expression, profile=constant)


def _has_keyword(among: Select[tuple[int]], ids: Sequence[int] | None) -> EntityPredicate:
    """Return the predicate of entities with one of the keywords `among`; their `ids` if few."""
    having = select(member.c.profile_id)
    having = having.where(member.c.keyword_id.in_(among if ids is None else ids))
    match = None
    if ids is not None:
        tokens = " OR ".join(f'"{keyword_token(number)}"' for number in ids)
        match = f"({tokens})" if tokens else NOWHERE
    return EntityPredicate(
        lambda _: searched.c.profile_id.in_(having),
        match=match,
        profile=profile.c.id.in_(having),
    )


def _with_row(
    entity_id: Column[Any], holds: ColumnElement[bool], *, scans: bool = False
) -> EntityPredicate:
    """Return the predicate of entities with a row in the table of `entity_id` that `holds`."""
    return EntityPredicate(
        check=lambda at: exists(entity_id).where(entity_id == at, holds),
        among=select(entity_id).where(holds),
        scans=scans,
    )


def _has_text(expression: str) -> EntityPredicate:
    """Return the predicate of entities whose texts match an expression of the full-text index."""
    return EntityPredicate(lambda at: at.in_(matching(expression)), match=f"({expression})")


def matching(expression: str | ColumnElement[str]) -> Select[Any]:
    """Return the query for the ids of the entities whose texts match `expression`."""
    return select(fts.c.rowid).where(matches(expression))


def matches(expression: str | ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that a row of the full-text index matches; none matches NULL."""
    # The index refuses a NULL, wherever SQLite's planner evaluates it.
    return fts.c.search_fts.op("MATCH")(func.coalesce(expression, NOWHERE))


MAX_TOKENS: Final = 200
"""Most keywords that are looked for as tokens of the full-text index; more are looked up in SQL."""

TIMES: Final = {"created": "created_ms", "lastModified": "modified_ms"}
_ALWAYS_THERE: Final = frozenset({"name", "urn", *TIMES})
_TEXTS: Final = {"description": DESCRIPTION, "customProperties": PROPERTIES}
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
        named = [(field, relationship) for relationship, field in spec.edge_fields.items()]
        if spec.type is not None and name.endswith(BODY_ENDINGS):
            named += [
                (field.name, field.edge.relationship)
                for field in spec.type.fields.values()
                if field.edge is not None and field.edge.at is None
                if field.edge.relationship not in spec.edge_fields
            ]
        for sought, relationship in named:
            relationships.setdefault(sought, set()).add(relationship)
    return {field: sorted(names) for field, names in relationships.items()}


_EDGES: Final = {**_edge_fields(), "features": ["Contains"], "primaryKeys": ["KeyedBy"]}
"""Searchable field to the relationships that it means."""


TEST_STATES: Final = {"IsFailing": "failing", "IsPassing": "passing"}
"""Relationship of an entity to its metadata tests, to the value of the field `tests`."""

TESTS: Final = select(entity.c.urn).where(entity.c.entity_type == "test")
"""The query for the URNs of all metadata tests."""


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
        predicate = _always(holds=True)
    elif field in _OTHERS:
        predicate = _OTHERS[field](criterion)
    else:
        predicate = _always(holds=False)
    return replace(predicate, negated=criterion.negated)


def _time(criterion: Criterion) -> EntityPredicate:
    column = TIMES[field_name(criterion.field).field]
    return _on_entity(
        lambda row: _any_number_compares(row.c[column], criterion.condition, criterion.values),
        # Numbers in it are found by an index.
        scans=column != "created_ms" or criterion.condition in {*PATTERNS, Condition.IEQUAL},
    )


def _on_entity(
    condition: Callable[[FromClause], ColumnElement[bool]], *, scans: bool
) -> EntityPredicate:
    """Return the predicate for a condition on the entity's own row of the index."""
    row = searched.alias()
    among = select(row.c.id).where(condition(row))
    return EntityPredicate(lambda _: condition(searched), among, scans=scans)


def _number(connection: Connection, field: str, name: str, criterion: Criterion) -> EntityPredicate:
    query = select(keyword.c.id).where(keyword.c.field == field, keyword.c.value == name)
    keyword_id = connection.scalar(query)
    if keyword_id is None:
        return _always(holds=False)
    table = numeric_field
    having = table.c.keyword_id == keyword_id
    if criterion.condition is not Condition.EXISTS:
        holds = _any_number_compares(table.c.value, criterion.condition, criterion.values)
        having = and_(having, holds)
    return _with_row(table.c.entity_id, having)


def _is_about_source(criterion: Criterion) -> bool:
    prefix = f"{SOURCE_KEY}="
    return bool(criterion.values) and all(value.startswith(prefix) for value in criterion.values)


def _keywords(
    connection: Connection, field: str, condition: Condition, values: tuple[str, ...]
) -> EntityPredicate:
    query = select(keyword.c.id).where(keyword.c.field == field)
    if field == "_entityType":
        values = _entity_types(connection, values) if condition in _OF_WHOLE_VALUES else values
    if condition is not Condition.EXISTS:
        values = (*values, *_as_urns(connection, field, condition, values))
        query = query.where(_text_compares(keyword.c.value, condition, values))
    ids = connection.scalars(query.limit(MAX_TOKENS + 1)).all()
    return _has_keyword(query, ids if len(ids) <= MAX_TOKENS else None)


_OF_WHOLE_VALUES: Final = EXACT | {Condition.IEQUAL}


def _as_urns(
    connection: Connection, field: str, condition: Condition, values: tuple[str, ...]
) -> Iterator[str]:
    """Yield the URNs of ids and, where people ask, of names: a tag may have another than its id."""
    prefixes = _URN_PREFIXES.get(field, ())
    if condition in {*_OF_WHOLE_VALUES, Condition.START_WITH}:
        ids = (value for value in values if not value.startswith(_URN))
        yield from (f"{prefix}{value}" for value, prefix in product(ids, prefixes))
    if condition is Condition.IEQUAL and prefixes:
        named = _urns_named(connection, list(values))
        yield from (urn for urn in named if urn.startswith(prefixes))


def _entity_types(connection: Connection, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entity types that `values` mean, `MLMODEL_GROUP` as well as `mlModelGroup`."""
    wanted = {value.replace("_", "").lower() for value in values}
    stored = connection.scalars(select(keyword.c.value).where(keyword.c.field == "_entityType"))
    return tuple(
        name for name in stored if {name.lower(), name.lower().removeprefix("datahub")} & wanted
    )


def _edges(
    connection: Connection, relationships: list[str], criterion: Criterion
) -> EntityPredicate:
    condition = criterion.condition
    holds: ColumnElement[bool] = edge.c.relationship.in_(relationships)
    if condition is not Condition.EXISTS:
        values = list(criterion.values)
        if condition in _OF_WHOLE_VALUES:
            values += _urns_named(connection, values)
            if not any(value.startswith(_URN) for value in criterion.values):
                condition = Condition.EQUAL
        holds = and_(_text_compares(edge.c.destination, condition, values), holds)
    scans = condition in {*PATTERNS, Condition.IEQUAL, Condition.EXISTS}
    return _with_row(edge.c.source_id, holds, scans=scans)


def _tests(criterion: Criterion) -> EntityPredicate:
    """Return the predicate of entities of which a test fails, or passes."""
    values = {value.lower() for value in criterion.values}
    exists_only = criterion.condition is Condition.EXISTS
    if not exists_only and criterion.condition not in _OF_WHOLE_VALUES:
        return _always(holds=False)
    wanted = [name for name, value in TEST_STATES.items() if exists_only or value in values]
    holds = and_(edge.c.destination.in_(TESTS), edge.c.relationship.in_(wanted))
    return _with_row(edge.c.source_id, holds)


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
        return _has_text(phrase((), within=column, begins=True))
    if criterion.condition not in _OF_WHOLE_VALUES | PATTERNS:
        return _always(holds=False)
    phrases = [
        phrase(
            tokens,
            within=column,
            begins=begins,
            ends=ends,
            prefix=not ends and (begins or len(tokens[-1]) >= MIN_PREFIX_CHARS),
        )
        for tokens, _ in map(tokenize, criterion.values)
        if tokens
    ]
    return _has_text(" OR ".join(phrases) or NOWHERE)


def _anywhere(criterion: Criterion) -> EntityPredicate:
    """Return the predicate for words in any of the texts; with START_WITH their beginnings."""
    end = MATCH_ALL if criterion.condition is Condition.START_WITH else ""
    terms = (term(f"{value}{end}") for value in criterion.values)
    return _has_text(" OR ".join(word.match() for word in terms if word) or NOWHERE)


def _name(criterion: Criterion) -> EntityPredicate:
    values = [fold(value) for value in criterion.values]
    # Both are folded, so an index that knows case answers.
    condition = Condition.EQUAL if criterion.condition is Condition.IEQUAL else criterion.condition
    return _on_entity(
        lambda row: _indexed_compares(row.c.name, condition, values),
        scans=condition in _WITHIN,
    )


_WITHIN: Final = frozenset({Condition.CONTAIN, Condition.END_WITH})
"""Conditions on a part of a text that does not begin it."""


def _indexed_compares(
    column: ColumnElement[str], condition: Condition, values: Iterable[str]
) -> ColumnElement[bool]:
    """Return the condition on a text that has an index, which finds beginnings with their case."""
    if condition is Condition.START_WITH:
        return or_(false(), *(begins_with(column, value) for value in values))
    return _text_compares(column, condition, values)


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
    compared = _indexed_compares(named.c.urn, criterion.condition, criterion.values)
    return _with_row(
        named.c.id, compared, scans=criterion.condition in {*_WITHIN, Condition.IEQUAL}
    )


_OTHERS: Final[Mapping[str, Callable[[Criterion], EntityPredicate]]] = {
    ANYWHERE: _anywhere,
    "name": _name,
    "urn": _urn,
    "featureNamespace": _namespace,
    "tests": _tests,
    "description": _text,
    "customProperties": _text,
    "created": _time,
    "lastModified": _time,
}

SEARCHABLE: Final = KEYWORD_FIELDS.union(_EDGES, _ALWAYS_THERE, _OTHERS, {DURATION})
"""The fields that criteria may be on, beside single metrics and parameters."""
