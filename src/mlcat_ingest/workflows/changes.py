"""The change log of a run: each change that the catalog acknowledged, and why it was made.

A line is one JSON object: an entry of a collection, or one whole value, as a plan shows it.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.metadata.reserved import RENAMED_TO
from mlcat_ingest.pipeline.merge.applied import (
    NOTHING,
    Base,
    fingerprint,
    fingerprints_in,
    key_fingerprint,
    read_bases,
)
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.provenance import custom_properties, stored_properties
from mlcat_ingest.pipeline.merge.rules import keys_of, properties_aspect
from mlcat_ingest.pipeline.read.enrich import RULE_ASPECTS, Enricher
from mlcat_ingest.recipe import secrets
from mlcat_ingest.recipe.rules import EnrichRule
from mlcat_ingest.workflows.plan_diff import (
    ABSENT,
    Action,
    AspectDiff,
    Change,
    EntityDiff,
    FieldDiff,
    diff_merged,
    entries_of,
)

RESTORED: Final = "restored after a conflict"
RENAMED: Final = "renamed"
TAKEN_AWAY: Final = "changed by others, unchanged at the source"
BY_RULE: Final = "rule of the recipe: "
DROPPED: Final = "no longer at the source or in a rule of the recipe"
REFERRED_TO: Final = "referenced by another entity"
AT_SOURCE: Final[Mapping[Action, str]] = {
    "create": "new at the source",
    "update": "changed at the source",
    "remove": "deleted at the source",
    "revive": "restored at the source",
}


class ChangeLog:
    """The file of the changes of one run. Safe for several threads.

    Cost: the difference of each entity that is written; memory for one batch of them.
    """

    def __init__(self, path: Path, rules: Sequence[EnrichRule]) -> None:
        """Make an empty file; `rules` are those that the entities were enriched by.

        Raises:
            OSError: it cannot be written.
        """
        self.problem: str | None = None
        self._path = path
        self._enricher = Enricher(rules)
        self._lock = threading.Lock()
        self._file = path.open("w", encoding="utf-8")

    def write(self, written: Sequence[MergedEntity]) -> None:
        """Add the changes of entities; where the file takes no more, `problem` says why."""
        records = (record for one in written for record in change_records(one, self._enricher))
        text = secrets.mask("".join(f"{dumps(record).decode()}\n" for record in records))
        with self._lock:
            if self.problem is not None:
                return
            try:
                self._file.write(text)
                self._file.flush()
            except OSError as error:
                self.problem = f"the changes cannot be written to {self._path}: {error.strerror}"

    def close(self) -> None:
        """Close the file; safe to call twice."""
        # It tries once more to write what is left in its buffer; `problem` says that already.
        with suppress(OSError):
            self._file.close()


def change_records(one: MergedEntity, enricher: Enricher) -> Iterator[dict[str, Any]]:
    """Yield the changes of a merged entity as JSON data; none where only keys `mlcat.*` change.

    A value that is not there has no `before` or no `after`; `entry` names the entry of a
    collection.
    """
    diff = diff_merged(one)
    if diff is None:
        return
    reasons = _Reasons(one, diff, enricher)
    about = {"urn": diff.urn, "name": diff.label}
    if diff.action in {"remove", "revive"}:
        removed = diff.action == "remove"
        place = {"aspect": STATUS, "field": "removed", "before": not removed, "after": removed}
        yield {**about, **place, "why": reasons.event}
    for aspect in diff.aspects:
        for place, why in _aspect_changes(aspect, reasons):
            yield {**about, "aspect": aspect.aspect, **place, "why": why}


def _aspect_changes(
    aspect: AspectDiff, reasons: "_Reasons"
) -> Iterator[tuple[dict[str, Any], str]]:
    if not aspect.fields:
        side = "before" if aspect.deleted else "after"
        yield {"field": None, side: {}}, reasons.event
    for field in aspect.fields:
        for change in field.changes:
            entry = {"entry": change.label} if field.collection else {}
            pair = {"before": change.old, "after": change.new}
            values = {side: value for side, value in pair.items() if value is not ABSENT}
            why = reasons.of(aspect.aspect, field, change)
            yield {"field": field.field, **entry, **values}, why
        if field.reordered and not field.changes:
            yield {"field": field.field, "reordered": True}, reasons.event


class _Reasons:
    """Why each change of one entity is made."""

    def __init__(self, one: MergedEntity, diff: EntityDiff, enricher: Enricher) -> None:
        custom = custom_properties(stored_properties(one.urn, one.stored) or NOTHING)
        self.event = _event(one, diff, custom)
        self._after = {each.aspect_name: each.aspect for each in one.proposals}
        self._is_whole = self.event in {RESTORED, RENAMED}
        self._base: Base = read_bases(custom, one.writer).ours or NOTHING
        self._rules = {
            (name, label): f"{BY_RULE}{place}"
            for place, name, added in enricher.additions(one.entity)
            for label in _labels(name, added)
        }

    def of(self, aspect: str, field: FieldDiff, change: Change) -> str:
        if self._is_whole:
            return self.event
        if change.sign == "removed":
            return DROPPED if aspect in RULE_ASPECTS else self.event
        if self._was_applied(aspect, field, change):
            return TAKEN_AWAY
        return self._rules.get((aspect, change.label), self.event)

    def _was_applied(self, aspect: str, field: FieldDiff, change: Change) -> bool:
        """Return whether the base has what is to be written: then others took it away."""
        text = self._base.get(aspect, NOTHING).get(field.field, "")
        if not field.collection:
            return bool(text) and text == fingerprint(change.new)
        if not text or change.old is not ABSENT:
            return False  # of an entry the base has the key, so that another value does not show
        is_map = isinstance(self._after[aspect].get(field.field), dict)
        key = change.label if is_map else keys_of(aspect, field.field, [change.new])[0]
        return key_fingerprint(key) in fingerprints_in(text)


def _event(one: MergedEntity, diff: EntityDiff, custom: Mapping[str, object]) -> str:
    """Return why an entity is written; `custom` is what the catalog holds of its properties."""
    if one.overwritten is not None:
        return RESTORED
    if one.entity.only_if_absent:
        return REFERRED_TO
    is_copy = one.writer is None and properties_aspect(diff.entity_type) is not None
    if is_copy or (diff.action == "remove" and RENAMED_TO in custom):
        return RENAMED
    return AT_SOURCE[diff.action]


def _labels(name: str, added: Aspect) -> Iterator[str]:
    """Yield the names by which a plan tells the entries of an aspect that a rule adds."""
    field = ASPECTS[name].curated or ""
    yield from entries_of(name, field, added.get(field, ()))
