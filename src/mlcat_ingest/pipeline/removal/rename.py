"""What people put on a group goes along when the experiment behind it gets another name."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mlcat_ingest.client.base import Catalog, StoredEntity
from mlcat_ingest.metadata.aspects.common import EDITABLE_ML_MODEL_GROUP_PROPERTIES
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.metadata.reserved import OWN_PREFIX, RENAMED_TO
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge import (
    UNION,
    MergeRules,
    merge_entity,
    properties_aspect,
    without_claims,
)
from mlcat_ingest.pipeline.merge.base import NOTHING, Base, read_bases
from mlcat_ingest.pipeline.merge.sources import CUSTOM, custom_properties
from mlcat_ingest.pipeline.write.delivery import Delivers

log = logging.getLogger(__name__)

_LISTS: Final[Mapping[str, str]] = {
    name: spec.curated for name, spec in ASPECTS.items() if spec.curated is not None
}
"""Aspects whose entries are added to those that the new group has; the field that lists them."""


class Copier:
    """Copies what is not ours from one group to another."""

    def __init__(self, sink: Catalog, delivery: Delivers) -> None:
        """Read from `sink`; `delivery` merges by `UNION`: copies are nobody's entries."""
        self._sink = sink
        self._delivery = delivery

    def copy(self, old: str, new: str) -> None:
        """Bring what others put on the group `old` to `new`, unless that was done before.

        Cost: one read and at most one write request.
        """
        home = properties_aspect(entity_type_of(old)) or ""
        names = (*_LISTS, EDITABLE_ML_MODEL_GROUP_PROPERTIES, home)
        stored = self._sink.read_many([old, new], names)
        before, there = stored.get(old, NOTHING), stored.get(new, NOTHING)
        properties = custom_properties(before[home].value) if home in before else NOTHING
        if properties.get(RENAMED_TO) == new:
            return
        aspects = dict(_foreign(before, there, home, properties))
        marked = {home: {CUSTOM: {RENAMED_TO: new}}}
        entities = [Entity(old, marked), *([Entity(new, aspects)] if aspects else ())]
        merged = [merge_entity(one, stored.get(one.urn), UNION) for one in entities]
        for one in self._delivery.deliver([one for one in merged if one.proposals]):
            for refusal in one.refusals[:1]:
                log.warning(
                    "what others put on %s was not copied to %s: %s", old, one.merged.urn, refusal
                )
        log.info("%s is %s now; what others put on it goes along", old, new)


def _foreign(
    old: StoredEntity, new: StoredEntity, home: str, properties: Mapping[str, Any]
) -> Iterator[tuple[str, Aspect]]:
    """Yield the aspects of `old` without what any recipe wrote, as far as `new` lacks them."""
    claims = read_bases(properties, None).others
    for name, field in _LISTS.items():
        left = _without(old, name, claims)
        if left and left.get(field):
            yield name, left if name not in new else {field: left[field]}
    docs = _without(old, EDITABLE_ML_MODEL_GROUP_PROPERTIES, claims)
    if docs and EDITABLE_ML_MODEL_GROUP_PROPERTIES not in new:
        yield EDITABLE_ML_MODEL_GROUP_PROPERTIES, docs
    left = _without(old, home, claims) or NOTHING
    known = custom_properties(new[home].value) if home in new else NOTHING
    custom = {
        key: value
        for key, value in custom_properties(left).items()
        if key not in known and not key.startswith(OWN_PREFIX)
    }
    if custom:
        yield home, {CUSTOM: custom}


def _without(stored: StoredEntity, name: str, claims: Base) -> Aspect | None:
    """Return an aspect without the entries in `claims`; None where nothing is left."""
    if name not in stored:
        return None
    ours = claims.get(name, NOTHING)
    return without_claims(name, stored[name].value, MergeRules(""), ours).value
