"""Parts of the report of a run: entities, examples, places, lineage, features, metadata tests."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlcat_ingest.client import base


@dataclass(frozen=True, slots=True)
class EntityCounts:
    """Entities of one type."""

    read: int = 0
    """Entities made from records; the sum of the other counts unless the run ended early."""
    created: int = 0
    """Entities that the catalog did not have."""
    updated: int = 0
    """Entities that the catalog had, and that changed."""
    removed: int = 0
    """Entities that were soft-deleted."""
    unchanged: int = 0
    """Entities that needed no write."""
    rejected: int = 0
    """Entities that the catalog refused, in whole or in part."""

    @property
    def written(self) -> int:
        """Entities that the catalog acknowledged in this run."""
        return self.created + self.updated + self.removed


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record that could not be mapped, or an entity that the catalog refused."""

    reference: str
    """Reference of the record, or URN of the entity."""
    reason: str
    """Cause, as the mapping or the catalog gave it."""


@dataclass(frozen=True, slots=True)
class EvaluationSummary:
    """Metadata tests of the written entities."""

    evaluated: int = 0
    """Entities whose metadata tests were evaluated."""
    passing: int = 0
    """Results that pass, one per test and entity."""
    failing: int = 0
    """Results that fail, one per test and entity."""
    failing_tests: Mapping[str, int] = field(default_factory=dict)
    """Number of entities that fail a test, by the URN of the test."""
    not_evaluated: str | None = None
    """Reason why no entity, or no further entity, was evaluated."""
    unevaluated_tests: Mapping[str, str] = field(default_factory=dict)
    """Reason why a test could not be evaluated, by the URN of the test."""
    where: "base.EvaluatedBy | None" = None
    """`service` or `client`: the side that evaluated."""


@dataclass(frozen=True, slots=True)
class DanglingDataset:
    """A dataset that models used and that the catalog does not have."""

    urn: str
    """URN that the models name."""
    models: int
    """Number of models that used it."""
    nearest: tuple[str, ...] = ()
    """URNs of datasets in the catalog with similar names."""


@dataclass(frozen=True, slots=True)
class LineageSummary:
    """Datasets that models used, and whether the catalog has them."""

    datasets: int = 0
    """Datasets that were looked up."""
    in_catalog: int = 0
    """Datasets that the catalog has."""
    dangling: tuple[DanglingDataset, ...] = ()
    """The first few datasets that the catalog does not have, the most used first."""
    beyond: bool = False
    """True if models used more datasets than one run looks up."""
    not_checked: str | None = None
    """Reason why some or all datasets were not looked up."""


@dataclass(frozen=True, slots=True)
class FeatureSummary:
    """Links of models to the features that they were trained on."""

    linked: Mapping[str, int] = field(default_factory=dict)
    """Models with links, by the rule that found the features."""
    approximate: int = 0
    """Models among these that may have used other features."""
    unknown: int = 0
    """References to features that neither a feature source nor the catalog has."""
    ambiguous: int = 0
    """References that several features match."""
    not_looked_up: int = 0
    """Models whose links were left unchanged, because their features could not be looked up."""

    @property
    def models(self) -> int:
        """Models that have a feature."""
        return sum(self.linked.values())


@dataclass(frozen=True, slots=True)
class PassSummary:
    """How one place was read."""

    source: str
    """Key of the source that was read."""
    full: bool
    """True for a full pass, false for a pass over the changes since the last run."""
    why: str
    """Reason for a full pass, or for one over changes."""
    instance: str = ""
    """Platform instance of the source."""
    current_at_ms: int | None = None
    """Start of the last completed pass, in epoch milliseconds: the catalog is current up to it."""
