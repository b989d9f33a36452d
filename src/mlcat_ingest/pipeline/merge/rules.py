"""The rules of merging: policies of a writer, and the fields that are the service's."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final, Self

from mlcat_ingest.metadata.aspects import SCHEMA_METADATA, VERSION_PROPERTIES
from mlcat_ingest.metadata.declaration import Items
from mlcat_ingest.metadata.entries import one_value_fields
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.metadata.registry import ASPECTS, declared_fields, implied_aspect
from mlcat_ingest.pipeline.merge.applied import NOTHING
from mlcat_ingest.recipe.model import Policy


@dataclass(frozen=True, slots=True)
class MergeRules:
    """How a writer merges. `policies` maps aspect, then field, to what is not `three_way`.

    Without a writer no base is kept, and therefore nothing is taken away: it is a merge by union.
    """

    writer: Writer | None
    policies: Mapping[str, Mapping[str, Policy]] = field(default_factory=lambda: NOTHING)
    adds_only: bool = False
    """True where nothing is taken away, although a base is kept."""
    clears_reused: bool = False
    """True if what stands on an entity goes once its name is another object's."""

    @property
    def default(self) -> Policy:
        """The policy of every field that `policies` does not name."""
        return "union" if self.adds_only or self.writer is None else "three_way"

    def adding(self) -> Self:
        """Return the rules of this writer by which nothing is taken away."""
        return replace(self, policies=NOTHING, adds_only=True)


BORROWED: Final = {"dataset": SCHEMA_METADATA}
"""Entity types of other connectors, which we describe while no other writer does; each with the
aspect whose `hash` tells that it is ours, whatever became of the base."""

UNION: Final = MergeRules(writer=None)
"""The rules of no particular writer: nothing is removed, and no base is kept."""


COMPUTED: Final = {name: spec.computed for name, spec in ASPECTS.items()}
"""Aspect to the fields that the service computes: they are never sent, and never compared."""

UNOWNED: Final = {name: spec.computed | spec.unowned for name, spec in ASPECTS.items()}
"""Aspect to the fields without an owner: the stored value stays, and the service's part of
them is computed anew."""

YIELDING: Final = {name: spec.yields for name, spec in ASPECTS.items()}
"""Aspect to the texts and records in which a value that is not ours stays."""


def without_computed(aspect_name: str, aspect: Aspect) -> Aspect:
    """Return an aspect without the fields that the service computes."""
    computed = COMPUTED.get(aspect_name)
    if not computed or computed.isdisjoint(aspect):
        return aspect
    return {field: value for field, value in aspect.items() if field not in computed}


def version_set_of(entity: Entity) -> str | None:
    """Return the version set that an entity is a version of; None for any other."""
    return entity.aspects.get(VERSION_PROPERTIES, {}).get("versionSet")


@cache
def required_values(aspect_name: str) -> frozenset[str]:
    """Return the fields that an aspect needs to be valid, and that have no empty value.

    A required list is not among them, since it may be empty, unless it is one value.
    """
    return frozenset(
        name
        for name, field in declared_fields(aspect_name).items()
        if field.required
        and (not isinstance(field.type, Items) or name in one_value_fields(aspect_name))
    )


BASE_IN_STATE: Final = frozenset({"api", "agentSkill", "aiAgent"})
"""Entity types of sources without custom properties: the state alone has the bases of these."""


@cache
def properties_aspect(entity_type: str) -> str:
    """Return the aspect of an entity type that has custom properties, empty where none has.

    Of a type in `BASE_IN_STATE` it is the main aspect.
    """
    name = implied_aspect(entity_type) or ""
    if entity_type in BASE_IN_STATE:
        return name
    if "customProperties" not in declared_fields(name):
        return ""
    return name
