"""Renamed experiments: what people put on the old group is copied to the new one."""

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from mlcat_ingest.client.base import Catalog, StoredEntity
from mlcat_ingest.metadata.aspects.common import EDITABLE_ML_MODEL_GROUP_PROPERTIES
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.metadata.reserved import OWN_PREFIX, RENAMED_TO
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.applied import NOTHING, Base, read_bases
from mlcat_ingest.pipeline.merge.aspects import without_applied
from mlcat_ingest.pipeline.merge.entity import merge_entity
from mlcat_ingest.pipeline.merge.provenance import CUSTOM, custom_properties, stored_properties
from mlcat_ingest.pipeline.merge.rules import UNION, MergeRules, properties_aspect
from mlcat_ingest.pipeline.write.delivery import DeliveryTarget

log = logging.getLogger(__name__)

_LISTS: Final[Mapping[str, str]] = {
    name: spec.curated for name, spec in ASPECTS.items() if spec.curated is not None
}
"""Aspects whose entries are added to those that the new group has; the field that lists them."""


class GroupCopier:
    """Copies what is not ours from one group to another."""

    def __init__(self, sink: Catalog, delivery: DeliveryTarget) -> None:
        """Read from `sink`; `delivery` merges by `UNION`: copies have no owner."""
        self._sink = sink
        self._delivery = delivery

    def copy(self, old: str, new: str) -> None:
        """Copy what others put on the group `old` to `new`, unless that was done before.

        Cost: one read and at most one write request.
        """
        main_aspect = properties_aspect(entity_type_of(old)) or ""
        names = (*_LISTS, EDITABLE_ML_MODEL_GROUP_PROPERTIES, main_aspect)
        stored = self._sink.read_many([old, new], names)
        before, after = stored.get(old, NOTHING), stored.get(new, NOTHING)
        custom = custom_properties(stored_properties(old, before) or NOTHING)
        if custom.get(RENAMED_TO) == new:
            return
        aspects = dict(_foreign(before, after, main_aspect, custom))
        entities = [Entity(old, {main_aspect: {CUSTOM: {RENAMED_TO: new}}}), Entity(new, aspects)]
        merged = [merge_entity(entity, stored.get(entity.urn), UNION) for entity in entities]
        for outcome in self._delivery.deliver([entity for entity in merged if entity.proposals]):
            for refusal in outcome.refusals[:1]:
                log.warning(
                    "metadata by others on %s was not copied to %s: %s",
                    old,
                    outcome.merged.urn,
                    refusal,
                )
        log.info("%s was renamed to %s; metadata by others is copied", old, new)


def _foreign(
    old: StoredEntity, new: StoredEntity, main_aspect: str, custom: Mapping[str, object]
) -> Iterator[tuple[str, Aspect]]:
    """Yield the aspects of `old` without what any recipe wrote, as far as `new` lacks them."""
    applied = read_bases(custom, None).others
    for name, field in _LISTS.items():
        left = _without(old, name, applied)
        if left and left.get(field):
            yield name, left if name not in new else {field: left[field]}
    docs = _without(old, EDITABLE_ML_MODEL_GROUP_PROPERTIES, applied)
    if docs and EDITABLE_ML_MODEL_GROUP_PROPERTIES not in new:
        yield EDITABLE_ML_MODEL_GROUP_PROPERTIES, docs
    left = _without(old, main_aspect, applied) or NOTHING
    known = custom_properties(new[main_aspect].value) if main_aspect in new else NOTHING
    added = {
        key: value
        for key, value in custom_properties(left).items()
        if key not in known and not key.startswith(OWN_PREFIX)
    }
    if added:
        yield main_aspect, {CUSTOM: added}


def _without(stored: StoredEntity, name: str, applied: Base) -> Aspect | None:
    """Return an aspect without the entries in `applied`; None where nothing is left."""
    if name not in stored:
        return None
    ours = applied.get(name, NOTHING)
    return without_applied(name, stored[name].value, MergeRules(""), ours).value
