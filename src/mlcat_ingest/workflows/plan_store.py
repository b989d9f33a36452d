"""The file of a plan: entities as they are, and as they would be."""

import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from mlcat_ingest.client.base import StoredAspect, StoredEntity
from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.workflows.plan_diff import EntityDiff, diff_entity, label_of_merged, values_of

_SCHEMA: Final = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE entity (
    urn TEXT PRIMARY KEY, type TEXT NOT NULL, existed INTEGER NOT NULL, label TEXT
);
CREATE TABLE aspect (
    urn TEXT NOT NULL, name TEXT NOT NULL, before BLOB, after BLOB, PRIMARY KEY (urn, name)
);
BEGIN;
"""
# What is said of an entity a second time starts from what was said of it first.
_ADD: Final = (
    "INSERT INTO aspect VALUES (?, ?, ?, ?)"
    " ON CONFLICT (urn, name) DO UPDATE SET after = excluded.after"
)
_REMOVED: Final = (
    "SELECT entity.urn, before, after FROM entity JOIN aspect USING (urn)"
    " WHERE aspect.name = ? AND type IN ('mlFeatureTable', 'mlFeature') ORDER BY type DESC, urn"
)
# Containers before what belongs to them, as they are written.
_ALL: Final = (
    "SELECT urn, existed, label FROM entity"
    " ORDER BY type NOT IN ('mlModelGroup', 'mlFeatureTable'), type, urn"
)


class PlanStore:
    """Entities as they are and as they would be. Safe to use from several threads.

    Cost: memory for a bounded number of pages; the rest is in the file.
    """

    def __init__(self) -> None:
        """Make the file; the system takes it away when it is closed."""
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.executescript(_SCHEMA)
        self._lock = threading.Lock()

    def add(self, merged: MergedEntity) -> None:
        """Keep what would be written of an entity.

        Raises:
            CodecError: it could not be sent, since it has no faithful JSON form.
        """
        rows = [
            (merged.urn, proposal.aspect_name, *map(_encode, values_of(merged, proposal)))
            for proposal in merged.proposals
        ]
        entity = (merged.urn, merged.entity_type, bool(merged.stored), label_of_merged(merged))
        with self._lock:
            self._db.execute("INSERT OR IGNORE INTO entity VALUES (?, ?, ?, ?)", entity)
            self._db.executemany(_ADD, rows)

    def over(
        self, stored: Mapping[str, StoredEntity], urns: Sequence[str], aspects: Collection[str]
    ) -> dict[str, StoredEntity]:
        """Return `stored` as it would be once all that was added is written."""
        overlaid = dict(stored)
        for urn in urns:
            planned = self._after(urn)
            if planned is None:
                continue
            entity = {key_aspect_name(entity_type_of(urn)): StoredAspect({})} | dict(
                stored.get(urn, {})
            )
            for name, value in planned.items():
                if value is None:
                    entity.pop(name, None)
                else:
                    version = entity[name].version if name in entity else None
                    entity[name] = StoredAspect(value, version)
            overlaid[urn] = {name: aspect for name, aspect in entity.items() if name in aspects}
        return {urn: entity for urn, entity in overlaid.items() if entity}

    def _after(self, urn: str) -> dict[str, Aspect | None] | None:
        with self._lock:
            if not self._db.execute("SELECT 1 FROM entity WHERE urn = ?", (urn,)).fetchone():
                return None
            rows = self._db.execute("SELECT name, after FROM aspect WHERE urn = ?", (urn,))
            return {name: _decode(after) for name, after in rows.fetchall()}

    def urns(self) -> Iterator[str]:
        """Yield the URNs of all that was added; nothing may be added meanwhile."""
        for urn, *_ in self._db.execute(_ALL):
            yield urn

    def diffs(self) -> Iterator[EntityDiff]:
        """Yield what would happen to each entity, by type and URN; nothing may be added meanwhile.

        An entity that would be as it was, all in all, is left out.
        """
        statement = "SELECT name, before, after FROM aspect WHERE urn = ? ORDER BY name"
        for urn, existed, label in self._db.execute(_ALL):
            rows = self._db.execute(statement, (urn,))
            aspects = {name: (_decode(before), _decode(after)) for name, before, after in rows}
            diff = diff_entity(urn, existed=bool(existed), aspects=aspects, label=label)
            if diff is not None:
                yield diff

    def removed_features(self) -> Iterator[str]:
        """Yield the feature tables and features that would be removed; nothing may be added."""
        for urn, before, after in self._db.execute(_REMOVED, (STATUS,)):
            was, will = ((_decode(value) or {}).get("removed") is True for value in (before, after))
            if will and not was:
                yield urn

    def close(self) -> None:
        """Delete the file; safe to call twice."""
        self._db.close()


def _encode(value: Aspect | None) -> bytes | None:
    return None if value is None else dumps(value)


def _decode(data: bytes | None) -> Aspect | None:
    return None if data is None else loads(data)
