"""What a run would write, in a temporary file of its own that is gone with the process."""

import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from mlcat_ingest.client.base import StoredAspect, StoredEntity
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge import MergedEntity
from mlcat_ingest.pipeline.report.labels import label_of_merged
from mlcat_ingest.workflows.plan.diff import EntityDiff, diff_entity

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
# Containers before what belongs to them, as they are written.
_ALL: Final = (
    "SELECT urn, existed, label FROM entity"
    " ORDER BY type NOT IN ('mlModelGroup', 'mlFeatureTable'), type, urn"
)


class PlanSpool:
    """Entities as they are and as they would be. Safe to use from several threads.

    Cost: memory for a bounded number of pages; the rest is in the file.
    """

    def __init__(self) -> None:
        """Make the file; the system takes it away when it is closed."""
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.executescript(_SCHEMA)
        self._lock = threading.Lock()

    def add(self, one: MergedEntity) -> None:
        """Keep what would be written of an entity.

        Raises:
            CodecError: it could not be sent, since it has no faithful JSON form.
        """
        rows = [(one.urn, p.aspect_name, *_before_after(one, p)) for p in one.proposals]
        entity = (one.urn, entity_type_of(one.urn), bool(one.stored), label_of_merged(one))
        with self._lock:
            self._db.execute("INSERT OR IGNORE INTO entity VALUES (?, ?, ?, ?)", entity)
            self._db.executemany(_ADD, rows)

    def over(
        self, stored: Mapping[str, StoredEntity], urns: Sequence[str], aspects: Collection[str]
    ) -> dict[str, StoredEntity]:
        """Return `stored` as it would be once all that was added is written."""
        found = dict(stored)
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
            found[urn] = {name: aspect for name, aspect in entity.items() if name in aspects}
        return {urn: entity for urn, entity in found.items() if entity}

    def _after(self, urn: str) -> dict[str, Aspect | None] | None:
        with self._lock:
            if not self._db.execute("SELECT 1 FROM entity WHERE urn = ?", (urn,)).fetchone():
                return None
            rows = self._db.execute("SELECT name, after FROM aspect WHERE urn = ?", (urn,))
            return {name: _loaded(after) for name, after in rows.fetchall()}

    def urns(self) -> Iterator[str]:
        """Yield the URNs of all that was added; nothing may be added meanwhile."""
        for urn, *_ in self._db.execute(_ALL):
            yield urn

    def diffs(self) -> Iterator[EntityDiff]:
        """Yield what would happen to each entity, by type and URN; nothing may be added meanwhile.

        What would be as it was, all in all, is left out.
        """
        for urn, existed, label in self._db.execute(_ALL):
            rows = self._db.execute(
                "SELECT name, before, after FROM aspect WHERE urn = ? ORDER BY name", (urn,)
            )
            aspects = {name: (_loaded(before), _loaded(after)) for name, before, after in rows}
            found = diff_entity(urn, existed=bool(existed), aspects=aspects, label=label)
            if found is not None:
                yield found

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        self._db.close()


def _before_after(one: MergedEntity, proposal: Proposal) -> tuple[bytes | None, bytes | None]:
    before = one.stored.get(proposal.aspect_name)
    return (
        None if before is None else dumps(before.value),
        None if proposal.change_type == "DELETE" else dumps(proposal.aspect),
    )


def _loaded(data: bytes | None) -> Aspect | None:
    if data is None:
        return None
    aspect: Aspect = loads(data)
    return aspect
