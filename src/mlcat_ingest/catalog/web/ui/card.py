"""The card of a model as a page shows it: the passport, from the versions in the store."""

from collections.abc import Collection
from functools import partial
from typing import Final

from mlcat_ingest.catalog.schema.tables import edge
from mlcat_ingest.catalog.store import history
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.lists import referrers, value_of
from mlcat_ingest.metadata.aspects import VERSION_PROPERTIES
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.passport import Kept, KeptVersion, Passport, passport, writer_text

_MOST: Final = 500
"""Most versions of one aspect that a page reads, the newest."""

_MOST_CHARS: Final = 8_000_000
"""Most characters of all of these, beside the newest version of each aspect."""


def card_of(store: Store, urn: str) -> Passport:
    """Return the passport of a model.

    The store keeps all versions, which name the writer of each value: no base is asked for that.

    Cost: three SQL statements for each entity that it is made from, and four for all.
    """
    stored = store.get_many([urn], {VERSION_PROPERTIES}).get(urn, {})
    version_set = value_of(stored, VERSION_PROPERTIES).get("versionSet", "")
    others = referrers(store, version_set, edge.c.relationship == "VersionOf", 0, _MOST)
    versions = store.get_many(others.urns, {VERSION_PROPERTIES})
    siblings = {
        one: value_of(aspects, VERSION_PROPERTIES)["sortId"]
        for one, aspects in versions.items()
        if one != urn
    }
    further = max(0, others.total - len({*others.urns, urn}))
    return passport(urn, partial(_kept, store), siblings=siblings, further=further)


def _kept(store: Store, urn: str, aspects: Collection[str] | None) -> Kept:
    """Return the versions of the aspects of an entity, without the oldest of too large ones."""
    found = store.read(history.newest_versions, urn, _MOST)
    infos = {
        (one.entity_id, one.aspect, one.version): one
        for one in found
        if aspects is None or one.aspect in aspects
    }
    sizes = store.read(history.sizes, infos)
    chosen: dict[str, list[history.VersionKey]] = {}
    left = _MOST_CHARS
    for key, one in infos.items():
        left -= sizes[key]
        keys = chosen.setdefault(one.aspect, [])
        if not keys or left >= 0:
            keys.append(key)
    texts = store.read(history.texts, [key for of in chosen.values() for key in of])
    return {
        aspect: [_version(infos[key], texts[key]) for key in keys]
        for aspect, keys in sorted(chosen.items())
    }


def _version(info: history.VersionInfo, text: str) -> KeptVersion:
    writer = writer_text(info.aspect, info.modified_by, info.system_metadata)
    return KeptVersion(info.version, loads(text), info.modified_ms, writer)
