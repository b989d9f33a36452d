"""The versions of aspects, the newest first: of one entity, or of all that changed."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Table, and_, exists, false, func, select, tuple_, union, union_all
from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import ColumnElement, Select

from mlcat_ingest.catalog.schema.tables import aspect, aspect_history, edge, entity
from mlcat_ingest.catalog.schema.values import BACKGROUND_TYPES, SYSTEM_ACTOR, UNKNOWN_ACTOR
from mlcat_ingest.catalog.store.rows import distinct_chunks
from mlcat_ingest.metadata.aspects import TEST_RESULTS
from mlcat_ingest.metadata.codec import dumps, loads

VersionKey = tuple[int, str, int]
"""The id of an entity, the name of an aspect, and a version of it."""

Moment = tuple[int, int]
"""When an entity changed, in milliseconds since the epoch, and its id."""


class VersionInfo(NamedTuple):
    """A version of an aspect without its value: when it was written, by whom, and with what.

    It is `with_entity` if its entity was made at that moment. `deleted` is true of the last version
    of an aspect that is there no more.
    """

    entity_id: int
    urn: str
    with_entity: bool
    aspect: str
    version: int
    modified_ms: int
    modified_by: str
    system_text: str | None
    deleted: bool

    @property
    def system_metadata(self) -> Mapping[str, Any]:
        """What the writer sent with the value."""
        return loads(self.system_text) if self.system_text else {}


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """The changes to show: by a person or recipe, of entities of a type, of groups and members.

    They are URNs, a name and a type, empty for all. `PEOPLE` are all writers with a name. New
    results of metadata tests are `evaluated`, which no other change is.
    """

    person: str = ""
    recipe: str = ""
    entity_type: str = ""
    groups: tuple[str, ...] = ()
    evaluated: bool = False


PEOPLE: Final = "people"
"""The `person` of a filter for the changes of anybody who is known by a name."""

_BACKGROUND: Final = (*BACKGROUND_TYPES, "dataHubExecutionRequest", "dataHubIngestionSource")
NO_PERSON: Final = (UNKNOWN_ACTOR, SYSTEM_ACTOR)
"""The writers without a name."""

_TABLES: Final = (aspect, aspect_history)
_COLUMNS: Final = ("aspect", "version", "modified_ms", "modified_by", "system_metadata")


def versions(
    connection: Connection, urn: str, start: int, count: int
) -> tuple[int, list[VersionInfo]]:
    """Return how many versions the aspects of `urn` have, and a page of them, the newest first."""
    known = select(entity.c.id).where(entity.c.urn == urn).scalar_subquery()
    both = union_all(*(_infos(table, table.c.entity_id == known) for table in _TABLES)).subquery()
    newest_first = both.c.modified_ms.desc(), both.c.aspect, both.c.version.desc()
    query = select(both, func.count().over()).order_by(*newest_first).offset(start).limit(count)
    rows = connection.execute(query).all()
    return (rows[0][-1] if rows else 0), [VersionInfo._make(row[:-1]) for row in rows]


def newest_versions(connection: Connection, urn: str, most: int) -> list[VersionInfo]:
    """Return the newest `most` versions of each aspect that `urn` has, the newest first."""
    now = aspect.alias()
    known = select(now.c.aspect, now.c.version).join(entity, entity.c.id == now.c.entity_id)
    of = known.add_columns(now.c.entity_id).where(entity.c.urn == urn).subquery()
    found = [
        VersionInfo._make(row)
        for table in _TABLES
        for row in connection.execute(
            _infos(table, table.c.version > of.c.version - most).join(
                of, and_(of.c.entity_id == table.c.entity_id, of.c.aspect == table.c.aspect)
            )
        )
    ]
    return sorted(found, key=lambda one: -one.version)


def moments(
    connection: Connection, wanted: ChangeFilter, since: Moment, before: Moment | None, count: int
) -> list[Moment]:
    """Return when which entities changed, the newest `count` from `since` to `before` a moment.

    Platforms, recipes and their runs are left out where no type is asked for.

    Cost: one SQL statement, a walk along the indexes of the time to the last of them.
    """
    query = union(*(_moments_in(table, wanted, since, before) for table in _TABLES))
    modified_ms, entity_id = query.selected_columns
    newest_first = query.order_by(modified_ms.desc(), entity_id.desc())
    return [(row[0], row[1]) for row in connection.execute(newest_first.limit(count))]


def versions_at(connection: Connection, chosen: Collection[Moment]) -> list[VersionInfo]:
    """Return the versions that were written at these moments, the newest first."""
    found = [
        VersionInfo._make(row)
        for chunk in distinct_chunks(chosen)
        for table in _TABLES
        for row in connection.execute(
            _infos(table, _among((table.c.modified_ms, table.c.entity_id), chunk))
        )
    ]
    return sorted(
        found, key=lambda one: (-one.modified_ms, -one.entity_id, one.aspect, -one.version)
    )


def sizes(connection: Connection, keys: Collection[VersionKey]) -> dict[VersionKey, int]:
    """Return the lengths of the values of those of `keys` that there are, in characters."""
    return dict(_read(connection, keys, lambda table: func.length(table.c.value)))


def texts(connection: Connection, keys: Collection[VersionKey]) -> dict[VersionKey, str]:
    """Return the values of those of `keys` that there are, as JSON text."""
    return dict(_read(connection, keys, lambda table: table.c.value))


def _read(
    connection: Connection,
    keys: Collection[VersionKey],
    column: Callable[[Table], ColumnElement[Any]],
) -> Iterator[tuple[VersionKey, Any]]:
    for chunk in distinct_chunks(keys):
        for table in _TABLES:
            key = table.c.entity_id, table.c.aspect, table.c.version
            query = select(*key, column(table)).where(_among(key, chunk))
            yield from (((row[0], row[1], row[2]), row[3]) for row in connection.execute(query))


def _among(
    columns: Sequence[ColumnElement[Any]], values: Collection[tuple[Any, ...]]
) -> ColumnElement[bool]:
    """Return the condition that `columns` have one of `values`, of which an index is used."""
    # For a list of rows alone SQLite walks through the table.
    each = zip(columns, zip(*values, strict=True), strict=True)
    return and_(*(column.in_(set(of)) for column, of in each), tuple_(*columns).in_(values))


def _moments_in(
    table: Table, wanted: ChangeFilter, since: Moment, before: Moment | None
) -> Select[Any]:
    moment = table.c.modified_ms, table.c.entity_id
    of_results = table.c.aspect == TEST_RESULTS
    query = select(*moment).where(of_results if wanted.evaluated else ~of_results)
    query = query.where(tuple_(*moment) >= since)
    if before is not None:
        query = query.where(tuple_(*moment) < before)
    if wanted.person:
        by = table.c.modified_by
        named = by.not_in(NO_PERSON) if wanted.person == PEOPLE else by == wanted.person
        query = query.where(named)
    if wanted.recipe:
        written = table.c.system_metadata
        # To look for the name is far cheaper than to parse each text.
        query = query.where(func.instr(written, dumps(wanted.recipe).decode()) > 0)
        query = query.where(func.json_extract(written, "$.pipelineName") == wanted.recipe)
    # Of an expression no other index is used than that of the time.
    changed = table.c.entity_id + 0
    if wanted.groups:
        members = select(edge.c.source_id).where(
            edge.c.destination.in_(wanted.groups), edge.c.relationship == "MemberOf"
        )
        themselves = select(entity.c.id).where(entity.c.urn.in_(wanted.groups))
        query = query.where(changed.in_(union_all(members, themselves)))
    kind = select(entity.c.entity_type).where(entity.c.id == changed).scalar_subquery()
    of_kind = kind == wanted.entity_type if wanted.entity_type else kind.not_in(_BACKGROUND)
    return query.where(of_kind)


def _infos(table: Table, condition: ColumnElement[bool]) -> Select[Any]:
    deleted: ColumnElement[bool] = false()
    if table is aspect_history:
        later = aspect_history.alias()
        deleted = and_(
            *(
                ~exists().where(
                    one.c.entity_id == table.c.entity_id, one.c.aspect == table.c.aspect, *newer
                )
                for one, newer in ((aspect, ()), (later, (later.c.version > table.c.version,)))
            )
        )
    return (
        select(
            entity.c.id,
            entity.c.urn,
            (entity.c.created_ms == table.c.modified_ms).label("with_entity"),
            *(table.c[name] for name in _COLUMNS),
            deleted.label("deleted"),
        )
        .join(entity, entity.c.id == table.c.entity_id)
        .where(condition)
    )
