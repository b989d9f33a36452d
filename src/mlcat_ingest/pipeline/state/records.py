"""The rows of records: the fingerprint that the catalog acknowledged, or the refusal."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from mlcat_ingest.pipeline.state.database import IN_LIST, in_lists
from mlcat_ingest.pipeline.state.tables import upsert
from mlcat_ingest.sources.base import RecordVersion
from mlcat_ingest.sql.database import SqlConnection


class RecordRow(NamedTuple):
    """One record as it is stored: its fields are the columns, which `tables` explains.

    `urns` are those of its entities, a line each; `reason` is empty unless the record is dirty. The
    digest of a dirty record is empty, and so equals none. Without `aspect_stamps` its entities have
    to be compared by their values.
    """

    part_id: int
    kind: str
    id: str
    digest: str
    urns: str
    fingerprint: str
    joined_fingerprint: str
    reason: str
    seen_in_pass: int
    aspect_stamps: str = ""

    @property
    def entities(self) -> Sequence[str]:
        """The URNs of its entities."""
        return self.urns.split("\n") if self.urns else ()

    def equals(self, version: RecordVersion, digest: str | None) -> bool:
        """Return whether a record of this `version` and `digest` is what was acknowledged."""
        fingerprints = version.fingerprint, version.joined_fingerprint
        known = self.digest, self.fingerprint, self.joined_fingerprint
        return bool(digest) and known == (digest, *fingerprints)


UNFINISHED: Final = "its write has not ended"
"""The reason that is kept of a record from before its entities are written until they are."""

EQUALS_NOTHING: Final = "digest = '', aspect_stamps = ''"
"""The values of a record that has to be mapped and compared again."""

_FOR_CATALOG: Final = "part_id IN (SELECT id FROM state_part WHERE recipe = ? AND sink = ?)"
_ASKED: Final = ("fingerprint", "joined_fingerprint", "reason")

ColumnValues = Mapping[str, Mapping[str, Mapping[str, str]]]
"""The values of records that are not empty, by column, kind and id."""

_KEY: Final = "part_id kind id"
SAVE: Final = upsert("state_record", _KEY, " ".join(RecordRow._fields[3:]))
"""Writes a `RecordRow` over the one before of its record."""

DELETE_STAMPS: Final = f"UPDATE state_record SET aspect_stamps = '' WHERE {_FOR_CATALOG}"
"""Deletes the stamps of all records of a recipe and its catalog."""


KNOWN: Final = (
    f"SELECT {', '.join(RecordRow._fields)} FROM state_record"
    " WHERE part_id = ? AND kind = ? AND id IN ?"
)
"""Selects the rows of some records of a kind, as a `RecordRow` each."""


def touch(
    connection: SqlConnection, part_id: int, pass_number: int, ids: Mapping[str, Iterable[str]]
) -> None:
    """Note that the source still lists records that did not change, by their kind.

    Cost: a statement for each 500 ids.
    """
    update = "UPDATE state_record SET seen_in_pass = ? WHERE part_id = ? AND kind = ? AND id IN ?"
    for kind, kind_ids in ids.items():
        for batch in in_lists(kind_ids):
            connection.execute(update, pass_number, part_id, kind, batch)


def read_columns(
    connection: SqlConnection, part_id: int, unacknowledged: Collection[str]
) -> ColumnValues:
    """Return the fingerprints, joined fingerprints and reasons of the records of a part.

    A record of `unacknowledged` entities has a reason, too.

    Cost: three statements; where there are such entities, one more and a look at every record.
    """
    columns = {name: defaultdict[str, dict[str, str]](dict) for name in _ASKED}
    for name, of_kinds in columns.items():
        for kind, record_id, value in _column(connection, part_id, name):
            of_kinds[kind][record_id] = value
    for kind, record_id, urns in _column(connection, part_id, "urns") if unacknowledged else ():
        if any(urn in unacknowledged for urn in urns.split("\n")):
            columns["reason"][kind].setdefault(record_id, UNFINISHED)
    return columns


def _column(connection: SqlConnection, part_id: int, name: str) -> Iterable[tuple[str, str, str]]:
    statement = f"SELECT kind, id, {name} FROM state_record WHERE part_id = ? AND {name} <> ''"
    return connection.execute(statement, part_id, stream=True)


def delete_entities(connection: SqlConnection, part_id: int, urns: Iterable[str]) -> None:
    """Delete entities: of a record that is others too these stay, and it equals nothing any more.

    Cost: a look at every record of several entities.
    """
    removed_urns = set(urns)
    several = "SELECT kind, id, urns FROM state_record WHERE part_id = ? AND urns LIKE ?"
    one = "WHERE part_id = ? AND kind = ? AND id = ?"
    for batch in in_lists(removed_urns):
        connection.execute(
            "DELETE FROM state_record WHERE part_id = ? AND urns IN ?", part_id, batch
        )
    for kind, record_id, joined in list(connection.execute(several, part_id, "%\n%")):
        remaining = [urn for urn in joined.split("\n") if urn not in removed_urns]
        if len(remaining) == joined.count("\n") + 1:
            continue
        row = (part_id, kind, record_id)
        if remaining:
            changed = f"UPDATE state_record SET urns = ?, {EQUALS_NOTHING} {one}"
            connection.execute(changed, "\n".join(remaining), *row)
        else:
            connection.execute(f"DELETE FROM state_record {one}", *row)


def urns_of(connection: SqlConnection, recipe: str, sink: str) -> Iterator[list[str]]:
    """Yield the entities of all records for one catalog, those of 500 records at a time."""
    statement = f"SELECT urns FROM state_record WHERE urns <> '' AND {_FOR_CATALOG}"
    several = connection.scalars(statement, recipe, sink, stream=True)
    while batch := list(islice(several, IN_LIST)):
        yield [urn for urns in batch for urn in urns.split("\n")]


def sample(connection: SqlConnection, part_id: int, from_digest: str, count: int) -> list[str]:
    """Return the entities of at most `count` records that were acknowledged, from a digest on."""
    picked = (
        "SELECT urns FROM state_record WHERE part_id = ? AND urns <> '' AND reason = ''"
        " AND digest >= ? ORDER BY digest LIMIT ?"
    )
    several = connection.scalars(picked, part_id, from_digest, count)
    return [urn for urns in several for urn in urns.split("\n")]


def urns_of_kind(connection: SqlConnection, part_id: int, kind: str) -> list[str]:
    """Return the entities of one record of a kind, none where there is none."""
    one = "SELECT urns FROM state_record WHERE part_id = ? AND kind = ? AND urns <> '' LIMIT 1"
    return (connection.scalar(one, part_id, kind) or "").split()
