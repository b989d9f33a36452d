"""The difference between what the catalog holds and what it would hold, field by field; pure.

Entries of lists and maps are known by their merge keys, all else is one value. Keys `mlcat.*` are
this package's own bookkeeping and never shown.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, NamedTuple

from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.applied import NOTHING, is_own
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.rules import (
    COMPUTED,
    LISTS,
    Key,
    keys_of,
    same_json,
    single_fields,
)
from mlcat_ingest.pipeline.report.labels import label_of_merged

Action = Literal["create", "update", "remove", "revive"]
"""An action of a plan on an entity; to remove is a soft delete, to revive takes that back."""

Sign = Literal["added", "changed", "removed"]


class Absent(Enum):
    """The one value that says that there is none; null is a value."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


class Change(NamedTuple):
    """One entry of a collection, or one whole value; ABSENT where it is not there."""

    label: str
    old: Any
    new: Any

    @property
    def sign(self) -> Sign:
        """The sign of the change: added, changed or removed."""
        if self.old is ABSENT:
            return "added"
        return "removed" if self.new is ABSENT else "changed"


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """The difference in one field: entries of a `collection`, or its one whole value.

    `reordered` says that the entries would also stand in another order than what is there followed
    by what is new.
    """

    field: str
    changes: tuple[Change, ...]
    collection: bool = False
    reordered: bool = False


@dataclass(frozen=True, slots=True)
class AspectDiff:
    """The difference in one aspect; `created` and `deleted` speak of the aspect as a whole."""

    aspect: str
    fields: tuple[FieldDiff, ...]
    created: bool = False
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class EntityDiff:
    """The difference in one entity; without aspects only this package's own keys change.

    `label` is what people call it, None where nothing but the URN names it.
    """

    urn: str
    action: Action
    aspects: tuple[AspectDiff, ...]
    proposals: int
    label: str | None = None

    @property
    def entity_type(self) -> str:
        """The type that the URN names."""
        return entity_type_of(self.urn)


def diff_entity(
    urn: str,
    *,
    existed: bool,
    aspects: Mapping[str, tuple[Aspect | None, Aspect | None]],
    label: str | None = None,
) -> EntityDiff | None:
    """Return what would happen to an entity; `aspects` maps each to what is and what would be.

    None where all of it is as it was.
    """
    changed = {name: pair for name, pair in aspects.items() if not _is_unchanged(*pair)}
    if not changed and existed:
        return None
    diffs = (diff_aspect(name, *pair) for name, pair in changed.items() if name != STATUS)
    return EntityDiff(
        urn,
        _action(existed, *changed.get(STATUS, (None, None))),
        tuple(diff for diff in diffs if diff is not None),
        proposals=len(changed),
        label=label,
    )


def diff_merged(merged: MergedEntity) -> EntityDiff | None:
    """Return what writing a merged entity changes, None where nothing."""
    return diff_entity(
        merged.urn,
        existed=bool(merged.stored),
        aspects={
            proposal.aspect_name: values_of(merged, proposal) for proposal in merged.proposals
        },
        label=label_of_merged(merged),
    )


def values_of(merged: MergedEntity, proposal: Proposal) -> tuple[Aspect | None, Aspect | None]:
    """Return the aspect of a proposal as the catalog holds it, and as it would be.

    Neither has the fields that the service computes anew.
    """
    stored = merged.stored if merged.overwritten is None else merged.overwritten
    before, after = stored.get(proposal.aspect_name), proposal.aspect
    unsent = COMPUTED.get(proposal.aspect_name, frozenset()) - after.keys()
    return (
        None if before is None else {k: v for k, v in before.value.items() if k not in unsent},
        None if proposal.change_type == "DELETE" else after,
    )


def _is_unchanged(old: Aspect | None, new: Aspect | None) -> bool:
    return (old is None) == (new is None) and same_json(old, new)


def _action(existed: bool, old: Aspect | None, new: Aspect | None) -> Action:  # noqa: FBT001 - private
    was, will = ((value or NOTHING).get("removed") is True for value in (old, new))
    if not existed:
        return "create"
    if was != will:
        return "remove" if will else "revive"
    return "update"


def diff_aspect(name: str, old: Aspect | None, new: Aspect | None) -> AspectDiff | None:
    """Return what would change in an aspect; None where only this package's own keys do."""
    before, after = old or NOTHING, new or NOTHING
    fields = tuple(
        diff
        for field in dict.fromkeys((*before, *after))
        if (diff := _diff_field(name, field, before.get(field, ABSENT), after.get(field, ABSENT)))
    )
    created, deleted = old is None, new is None
    if not fields and not (created or deleted):
        return None
    return AspectDiff(name, fields, created=created, deleted=deleted)


def _diff_field(aspect: str, field: str, old: Any, new: Any) -> FieldDiff | None:
    label = _labels(aspect, field, old, new)
    if label is None:
        same = (old is ABSENT) == (new is ABSENT) and same_json(old, new)
        return None if same else FieldDiff(field, (Change("", old, new),))
    before, after = label(old), label(new)
    changes = tuple(_changes(before, after))
    expected = [entry for entry in before if entry in after]
    expected += [entry for entry in after if entry not in before]
    # A map has no order that anybody could rely on.
    reordered = not isinstance(new, dict) and expected != list(after)
    if not changes and not reordered:
        return None
    return FieldDiff(field, changes, collection=True, reordered=reordered)


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for label, old in before.items():
        new = after.get(label, ABSENT)
        if new is ABSENT or not same_json(old, new):
            yield Change(label, old, new)
    for label, new in after.items():
        if label not in before:
            yield Change(label, ABSENT, new)


def _labels(
    aspect: str, field: str, old: Any, new: Any
) -> Callable[[Any], Mapping[str, Any]] | None:
    """Return what makes entries of a field, by their names; None for a field of one value."""
    present = [value for value in (old, new) if value is not ABSENT]
    if field in single_fields(aspect):
        return None
    if all(isinstance(value, dict) for value in present):
        return _of_map
    if all(isinstance(value, LISTS) for value in present):
        return lambda value: entries_of(aspect, field, () if value is ABSENT else value)
    return None


def _of_map(value: Any) -> Mapping[str, Any]:
    if value is ABSENT:
        return NOTHING
    return {key: entry for key, entry in value.items() if not is_own(str(key))}


def entries_of(aspect: str, field: str, entries: Sequence[Any]) -> dict[str, Any]:
    """Return the entries of a list by names that tell them apart, in their order."""
    named: dict[str, Any] = {}
    for key, entry in zip(keys_of(aspect, field, entries), entries, strict=True):
        label = text = _text_of(key)
        again = 1
        while label in named:
            again += 1
            label = f"{text} #{again}"
        named[label] = entry
    return named


def _text_of(key: Key) -> str:
    if isinstance(key, bytes):
        return key.decode("utf-8", "backslashreplace")
    return key if isinstance(key, str) else " ".join(part for part in key if part)
