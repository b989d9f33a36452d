"""The difference between what the catalog holds of an entity and what it would hold; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mlcat_ingest.core.text import printable
from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.diff import AspectDiff, diff_aspect
from mlcat_ingest.metadata.entries import same_json
from mlcat_ingest.metadata.labels import label_of
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from mlcat_ingest.metadata.registry import KEY_ASPECTS
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.applied import NOTHING
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.rules import COMPUTED, properties_aspect

Action = Literal["create", "update", "remove", "revive"]
"""An action of a plan on an entity; to remove is a soft delete, to revive takes that back."""


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
    changed = {
        name: (old, new)
        for name, (old, new) in aspects.items()
        if (old is None) != (new is None) or not same_json(old, new)
    }
    if not changed and existed:
        return None
    diffs = (diff_aspect(name, *pair) for name, pair in changed.items() if name != STATUS)
    states = changed.get(STATUS, (None, None))
    was, will = ((state or NOTHING).get("removed") is True for state in states)
    action: Action = "update" if existed else "create"
    if existed and was != will:
        action = "remove" if will else "revive"
    return EntityDiff(
        urn,
        action,
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
    if merged.stored and proposal.aspect_name in KEY_ASPECTS:
        return after, after  # nobody reads it, and what is stored has it
    unsent = COMPUTED.get(proposal.aspect_name, frozenset()) - after.keys()
    return (
        None if before is None else {k: v for k, v in before.value.items() if k not in unsent},
        None if proposal.change_type == "DELETE" else after,
    )


def label_of_merged(merged: MergedEntity) -> str | None:
    """Return the label of an entity after the write, else as it is stored."""
    name = properties_aspect(merged.entity_type)
    if not name:
        return None
    written = next(
        (proposal.aspect for proposal in merged.proposals if proposal.aspect_name == name), None
    )
    stored = merged.stored.get(name)
    before = None if stored is None else stored.value
    values = (written, before, merged.entity.aspects.get(name))
    label = next(filter(None, (label_of(merged.urn, value) for value in values)), None)
    return label and printable(label)
