"""What the catalog service gives back, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlcat_ingest.metadata.proposal import Aspect


@dataclass(frozen=True, slots=True)
class StoredAspect:
    """An aspect as the catalog holds it; `version` counts its changes, None where not told."""

    value: Aspect
    version: str | None = None


StoredEntity = Mapping[str, StoredAspect]
"""Aspect name to stored aspect; empty for an entity that the catalog does not have."""


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """The metadata tests of one entity: URNs of the tests that passed and that failed."""

    __test__ = False  # for pytest, this is no test class

    passing: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an evaluation gave: outcomes by entity URN, or why nothing was evaluated."""

    outcomes: Mapping[str, TestOutcome] = field(default_factory=dict)
    not_evaluated: str | None = None
