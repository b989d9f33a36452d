"""The conformance suite: one call proves that a source, or a catalog, keeps its protocol.

It needs the base installation alone, and any test runner. A broken rule is a line of the
`ConformanceError` that it raises::

    def test_my_source_conforms() -> None:
        check_source(lambda: MyRegistrySource(MyRegistryConfig(path=REGISTRY)))
"""

from collections.abc import Callable, Collection
from typing import Any, Final

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.sources.base import Source
from mlcat_ingest.testing.conformance import ingests, source_rules
from mlcat_ingest.testing.conformance.catalog_rules import CATALOG_CHECKS, CatalogSubject
from mlcat_ingest.testing.conformance.rules import (
    Check,
    ConformanceError,
    Rule,
    SourceSubject,
    Violation,
    first_of_each,
)

__all__ = ["ConformanceError", "Rule", "Violation", "check_catalog", "check_source"]

_SOURCE_CHECKS: Final[tuple[Check[SourceSubject], ...]] = (
    source_rules.check_lazy,
    source_rules.check_yields,
    source_rules.check_order,
    source_rules.check_repeatable,
    source_rules.check_versions,
    source_rules.check_pure,
    source_rules.check_skippable,
    source_rules.check_entities,
    source_rules.check_close,
    source_rules.check_cancellation,
    source_rules.check_partitions,
    source_rules.check_findings,
    source_rules.check_errors,
    source_rules.check_declared,
    source_rules.check_features,
    source_rules.check_shards,
    source_rules.check_runs,
    ingests.check_complete,
    ingests.check_idempotent,
    ingests.check_secrets,
    ingests.check_changes,
    ingests.check_removal,
)
"""Those that change the system come last."""


def check_source(
    make_source: Callable[[], Source[Any]],
    *,
    change: Callable[[], object] | None = None,
    remove: Callable[[], object] | None = None,
    make_unreachable: Callable[[], Source[Any]] | None = None,
    unmappable: Collection[Any] = (),
    secrets: Collection[str] = (),
) -> None:
    """Prove that a source keeps the protocol of `sources.base`.

    Examples:
        >>> from mlcat_ingest.sources.definitions.file_source import (
        ...     DefinitionsConfig,
        ...     DefinitionsSource,
        ... )
        >>> check_source(lambda: DefinitionsSource(DefinitionsConfig(path="features.yml")))

    Args:
        make_source: makes a source of a small system, a new object each time, with no limit on what
            is read; called about 40 times.
        change: adds or edits something in the system; without it incremental reading and digests
            are not tried.
        remove: removes something from the system, after `change`; without it removal is not tried.
        make_unreachable: makes a source of a system that does not answer.
        unmappable: records that `map` has to skip.
        secrets: texts that nothing which leaves the source may hold, such as its password.

    Raises:
        ConformanceError: a rule is broken; the message has a line for each.
        ValueError: `change` changed nothing that is mapped.
        MlcatError: the system cannot be read.

    Cost: about 40 readings of the system.
    """
    subject = SourceSubject(make_source, change, remove, make_unreachable, unmappable, secrets)
    violations = tuple(first_of_each(_SOURCE_CHECKS, subject))
    if violations:
        raise ConformanceError("the source", violations)


def check_catalog(make_catalog: Callable[[], Catalog]) -> None:
    """Prove that a catalog keeps the protocol of `client.base`: reads, writes, conditions, close.

    Args:
        make_catalog: makes a catalog of the same, empty content, a new object each time; it is
            opened and closed by the suite, which leaves a few entities in it.

    Raises:
        ConformanceError: a rule is broken; the message has a line for each.
        MlcatError: the catalog cannot be opened, read or written.
    """
    violations = tuple(first_of_each(CATALOG_CHECKS, CatalogSubject(make_catalog)))
    if violations:
        raise ConformanceError("the catalog", violations)
