"""Renamed experiments: what people put on the old group is copied to the new one."""

import logging
from collections.abc import Iterator, Mapping
from functools import partial

from mlcat_ingest.client.base import Catalog, StoredEntity
from mlcat_ingest.metadata.aspects import EDITABLE_ML_MODEL_GROUP_PROPERTIES, STATUS
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import CUSTOM, Aspect, Entity, custom_properties
from mlcat_ingest.metadata.reserved import COPIED_TO, OWN_PREFIX, RENAMED_TO
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.ledger import Ledger
from mlcat_ingest.pipeline.merge.applied import NOTHING, Base, read_bases
from mlcat_ingest.pipeline.merge.aspects import without_applied
from mlcat_ingest.pipeline.merge.entity import MergedEntity, merge_entity
from mlcat_ingest.pipeline.merge.provenance import custom_of
from mlcat_ingest.pipeline.merge.rules import UNION, MergeRules, properties_aspect
from mlcat_ingest.pipeline.write.conflicts import COPIED, CURATED
from mlcat_ingest.pipeline.write.delivery import ROUNDS, DeliveryTarget

log = logging.getLogger(__name__)


def merge_copy(entity: Entity, stored: StoredEntity | None) -> MergedEntity:
    """Return the merge of what is copied, which has no owner, with the group that gets it.

    A group that was deleted for good meanwhile is not made again.
    """
    if not stored:
        return MergedEntity(entity, NOTHING, "unchanged")
    return merge_entity(entity, stored, UNION)


class GroupCopier:
    """Copies what is not ours from one group to another."""

    def __init__(
        self,
        sink: Catalog,
        delivery: DeliveryTarget,
        ledger: Ledger,
    ) -> None:
        """Read from `sink`; `delivery` merges by `merge_copy`.

        The state of `ledger` knows the writer, and its bases that another tool has dropped.
        """
        self._sink = sink
        self._delivery = delivery
        self._ledger, self._state = ledger, ledger.state

    def leads_to(self, new: str, old: str) -> bool:
        """Return whether the group `new` was renamed to `old` by now. Cost: one read a renaming."""
        return self._follow(old, new)[0] == old

    def copy(self, old: str, new: str) -> None:
        """Copy what others put on the group `old` to `new`, unless that was done before.

        Where `new` was renamed by now, its new name gets the copy. Afterwards both are read again,
        and what came to `old` meanwhile is copied too. A `new` that is not stored gets nothing.
        Only then `old` is marked as copied: a run that ends before leaves it to the next one.

        Cost: two reads and three write requests; more where others write at the same time.
        """
        copied: tuple[str, dict[str, Aspect]] | None = None
        for _ in range(ROUNDS):
            target, stored = self._follow(old, new)
            source = stored.get(old)
            if source is None or target == old or target not in stored:
                return
            custom = custom_of(old, source)
            if custom.get(COPIED_TO):
                return
            # What any recipe wrote on it, as far as its bases are known.
            remembered = partial(self._state.entities.base, old)
            applied = read_bases(custom, self._state.writer, remembered).joined
            theirs = dict(_foreign(old, source, NOTHING, applied))
            if copied == (target, theirs):
                self._mark(old, source, {RENAMED_TO: target, COPIED_TO: target})
                log.info("%s was renamed to %s; metadata by others is copied", old, target)
                return
            copied = target, theirs
            missing = dict(_foreign(old, source, stored[target], applied))
            held = {name: stored[target][name] for name in theirs if name in stored[target]}
            merged = merge_copy(Entity(target, missing), held)
            if not self._write(merged, old):
                return
            self._mark(old, source, {RENAMED_TO: target, COPIED_TO: ""})

    def _follow(self, old: str, new: str) -> tuple[str, Mapping[str, StoredEntity]]:
        """Return the name that the group `new` has by now, and the groups that were read."""
        names = (*COPIED, STATUS, _main_aspect(old))
        stored = dict(self._sink.read_many([old, new], names))
        seen = {new}
        while (name := new_name(new, stored.get(new, NOTHING))) is not None and name not in seen:
            new = name
            seen.add(new)
            stored.update(self._sink.read_many([new], names))
        return new, stored

    def _mark(self, group: str, stored: StoredEntity, marks: Mapping[str, str]) -> None:
        """Write custom properties of ours on an old group."""
        marked = Entity(group, {_main_aspect(group): {CUSTOM: marks}})
        self._write(merge_copy(marked, stored), group)

    def _write(self, merged: MergedEntity, old: str) -> bool:
        """Write an entity; return whether it was not refused."""
        outcomes = self._delivery.deliver([merged]) if merged.proposals else ()
        refusals = [refusal for outcome in outcomes for refusal in outcome.refusals]
        if refusals:
            why = refusals[0]
            log.warning("metadata by others on %s was not copied to %s: %s", old, merged.urn, why)
        self._ledger.report(outcomes)
        return not refusals


def _main_aspect(group: str) -> str:
    return properties_aspect(entity_type_of(group))


def new_name(group: str, stored: StoredEntity) -> str | None:
    """Return the group that `group` was copied to, None for one that was not."""
    name = custom_of(group, stored).get(RENAMED_TO)
    return name if isinstance(name, str) else None


def _foreign(
    group: str, old: StoredEntity, new: StoredEntity, applied: Base
) -> Iterator[tuple[str, Aspect]]:
    """Yield the aspects of `old` without what is `applied`, as far as `new` lacks them."""
    main_aspect = _main_aspect(group)
    for name, field in CURATED.items():
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
    yield main_aspect, {CUSTOM: added}


def _without(stored: StoredEntity, name: str, applied: Base) -> Aspect | None:
    """Return an aspect without the entries in `applied`; None where nothing is left."""
    if name not in stored:
        return None
    ours = applied.get(name, NOTHING)
    return without_applied(name, stored[name].value, MergeRules(Writer("")), ours).value
