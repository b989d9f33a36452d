"""The card of a model as a page shows it: the passport, from the versions in the store."""

from typing import Final

from mlcat_ingest.catalog.schema.values import UNKNOWN_ACTOR
from mlcat_ingest.catalog.store import history
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.passport import (
    MOST_VERSIONS,
    Kept,
    KeptVersion,
    Passport,
    passport,
    related,
    writer_text,
)

_MOST: Final = 1_000
"""Most versions of one entity that a page reads, the newest."""


def card_of(store: Store, urn: str) -> Passport:
    """Return the passport of a model.

    Cost: three SQL statements for each entity that it is made from.
    """
    subject = _kept(store, urn)
    return passport(urn, {urn: subject} | {one: _kept(store, one) for one in related(subject)})


def _kept(store: Store, urn: str) -> Kept:
    _, infos = store.read(lambda sql: history.versions(sql, urn, 0, _MOST))
    chosen: dict[str, list[history.VersionInfo]] = {}
    gone = {info.aspect for info in infos if info.deleted}
    for info in sorted(infos, key=lambda one: -one.version):
        versions = chosen.setdefault(info.aspect, [])
        if info.aspect not in gone and len(versions) < MOST_VERSIONS:
            versions.append(info)
    keys = [(one.entity_id, one.aspect, one.version) for of in chosen.values() for one in of]
    texts = store.read(lambda sql: history.texts(sql, keys))
    return {
        name: [
            KeptVersion(
                one.version,
                loads(texts[one.entity_id, name, one.version]),
                one.modified_ms,
                writer_text(name, one.modified_by or UNKNOWN_ACTOR, one.system_metadata),
            )
            for one in versions
        ]
        for name, versions in sorted(chosen.items())
    }
