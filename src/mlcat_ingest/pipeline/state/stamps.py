"""Stamps of aspects: what the catalog held of the entities of a record when they equalled it.

A stamp is the version of an aspect, and the run and the time that its last writer named. A full
pass compares stamps in place of values. They are kept only of an entity of which every aspect that
its merge reads has one, and none is computed by the service.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from mlcat_ingest.client.base import CANNOT_ANSWER, StoredAspect, each_type, numbers_in, stamp_of
from mlcat_ingest.metadata.aspects import VERSION_PROPERTIES
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.outcome import Stamps
from mlcat_ingest.pipeline.state.records import RecordRow

log = logging.getLogger(__name__)

ReadStamps = Callable[[Sequence[str], Collection[str]], Mapping[str, Mapping[str, str | None]]]
"""Reads stamps, as `Catalog.read_stamps`."""


def read_number(stored: StoredAspect | None) -> int | None:
    """Return the version of a stored aspect as a number, 0 for none, None for an unknown one."""
    if stored is None:
        return 0
    return int(stored.version) if stored.version and stored.version.isdecimal() else None


def stamps_of(
    merged: MergedEntity, names: Iterable[str], system_metadata: Mapping[str, Any] | None = None
) -> Stamps | None:
    """Return the stamps of an entity once its proposals are written; None if one is not known.

    They are written with `system_metadata`, each under the condition that nobody wrote before.
    """
    written = {proposal.aspect_name: proposal for proposal in merged.proposals}
    if VERSION_PROPERTIES in written or VERSION_PROPERTIES in merged.stored:
        return None  # the service computes parts of it, also with the write of another version
    stamps: dict[str, str | None] = dict.fromkeys(names)
    if not written.keys() <= stamps.keys():
        return None
    known = {
        name: before.stamp
        for name, before in merged.stored.items()
        if name in stamps and name not in written
    }
    for name, proposal in written.items():
        if proposal.change_type != "DELETE":
            number = read_number(merged.stored.get(name))
            if number is None or proposal.headers is None:
                return None
            known[name] = stamp_of(str(number + 1), system_metadata)
    return None if None in known.values() else stamps | known


def is_before(stamp: str | None, other: str | None) -> bool:
    """Return whether a stamp is of an earlier value of an aspect than the `other` one.

    The service counts on from an earlier version after a rollback, and from 1 where an entity was
    deleted for good: of these two only the first has an earlier time, too.
    """
    (version, time_ms), (later, later_ms) = numbers_in(stamp), numbers_in(other)
    return 0 < version < later and time_ms < later_ms


def has_forked(stamp: str | None, other: str | None) -> bool:
    """Return whether an aspect of an entity that went back did so too, even if written since."""
    (version, _), (later, _) = numbers_in(stamp), numbers_in(other)
    return 0 < version <= later and stamp != other


def without_old_stamps(
    rows: Sequence[RecordRow | None], read: ReadStamps
) -> list[RecordRow | None]:
    """Return `rows`, without stamps where the catalog does not hold the entities as they were.

    An entity without stamps only has to exist. None is as it was where the catalog cannot tell.

    Cost: one request for a batch of entities of a type.
    """
    kept: list[Mapping[str, Stamps]] = [
        loads(row.aspect_stamps) if row and row.aspect_stamps else {} for row in rows
    ]
    names: defaultdict[str, set[str]] = defaultdict(set)
    for urn, stamps in (item for record in kept for item in record.items()):
        entity_type = entity_type_of(urn)
        names[entity_type].update(stamps or (key_aspect_name(entity_type),))
    try:
        stored = each_type(read, chain.from_iterable(kept), names.__getitem__)
    except CANNOT_ANSWER as error:
        log.info("stamps cannot be read, so values are compared: %s", error)
        return [row and row._replace(aspect_stamps="") for row in rows]
    return [
        row
        if all(_is_same(urn, stamps, stored.get(urn, {})) for urn, stamps in record.items())
        else row and row._replace(aspect_stamps="")
        for row, record in zip(rows, kept, strict=True)
    ]


def _is_same(urn: str, kept: Stamps, stored: Mapping[str, str | None]) -> bool:
    if not kept:
        return key_aspect_name(entity_type_of(urn)) in stored
    return all(
        name not in stored if stamp is None else stored.get(name) == stamp
        for name, stamp in kept.items()
    )
