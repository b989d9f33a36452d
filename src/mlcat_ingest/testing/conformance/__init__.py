"""The conformance suite: one call proves that a source, or a catalog, keeps its protocol.

It needs the base installation alone, and any test runner. A broken rule is a line of the
`ConformanceError` that it raises::

    def test_my_source_conforms() -> None:
        check_source(lambda: MyRegistrySource(MyRegistryConfig(path=REGISTRY)))
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from mlcat_ingest.client.base import Catalog, StoredAspect
from mlcat_ingest.errors import AspectChangedError
from mlcat_ingest.metadata.aspects import ML_MODEL_PROPERTIES, STATUS
from mlcat_ingest.metadata.proposal import IF_VERSION_MATCH, NO_SUCH_VERSION, NOT_STORED, Proposal
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.urn import build, data_platform
from mlcat_ingest.sources.base import Source
from mlcat_ingest.testing.conformance import ingests, source_rules
from mlcat_ingest.testing.conformance.rules import (
    Check,
    ConformanceError,
    Found,
    Rule,
    SourceSubject,
    Violation,
    attempt,
    judge,
    words_of,
)

__all__ = ["ConformanceError", "Rule", "Violation", "check_catalog", "check_source"]

_SOUGHT: Final = (ML_MODEL_PROPERTIES, STATUS)

MakeCatalog = Callable[[], Catalog]
"""Makes a catalog under test, each time of the same content."""


@contextmanager
def _opened(make: MakeCatalog) -> Iterator[Catalog]:
    catalog = make()
    try:
        catalog.open()
        yield catalog
    finally:
        catalog.close()


def _urn(name: str) -> str:
    return build("mlModel", data_platform("mlcat-conformance"), name, "PROD")


def _description_proposal(name: str, text: str, version: str | None = None) -> Proposal:
    headers = None if version is None else {IF_VERSION_MATCH: version}
    return Proposal(_urn(name), ML_MODEL_PROPERTIES, {"description": text}, headers=headers)


def _stored_aspect(catalog: Catalog, name: str) -> StoredAspect | None:
    stored = catalog.read_many([_urn(name)], _SOUGHT)
    return stored.get(_urn(name), {}).get(ML_MODEL_PROPERTIES)


def _description(catalog: Catalog, name: str) -> object:
    stored = _stored_aspect(catalog, name)
    return None if stored is None else stored.value.get("description")


def _reads(make: MakeCatalog) -> Found:
    """Read an entity that nobody wrote."""
    with _opened(make) as catalog:
        stored = catalog.read_many([_urn("never written")], _SOUGHT)
        if stored:
            yield _urn("never written"), f"never written, it is read as {dict(stored)}"


def _writes(make: MakeCatalog) -> Found:
    """Write, read back, write the same, and write something else."""
    urn = _urn("written")
    with _opened(make) as catalog:
        for refusal in catalog.write(
            [_description_proposal("written", "one"), _description_proposal("other", "two")]
        ):
            yield refusal.urn, f"refused: {refusal}"
        for name, text in (("written", "one"), ("other", "two")):
            if (value := _description(catalog, name)) != text:
                yield _urn(name), f"{text!r} was acknowledged, and {value!r} is read back"
        key = key_aspect_name("mlModel")
        if key not in catalog.read_many([urn], [key]).get(urn, {}):
            yield urn, f"it was acknowledged, and is read without {key}"
        first = _stored_aspect(catalog, "written")
        catalog.write([_description_proposal("written", "one")])
        if (again := _stored_aspect(catalog, "written")) != first:
            yield urn, f"written again unchanged it is {again}, not {first}"
        catalog.write([_description_proposal("written", "three")])
        changed = _stored_aspect(catalog, "written")
        if first and changed and first.version and first.version == changed.version:
            yield urn, f"changed, it keeps the version {changed.version}"


def _conditions(make: MakeCatalog) -> Found:
    """Write under conditions that hold, and under some that do not."""
    with _opened(make) as catalog:
        catalog.write([_description_proposal("conditional", "one")])
        stored = _stored_aspect(catalog, "conditional")
        if stored is None or stored.version is None:
            return  # it tells no versions, so no client names one
        urn = _urn("conditional")
        for version in (NOT_STORED, NO_SUCH_VERSION):
            refused = catalog.write([_description_proposal("conditional", "two", version)])
            if [type(refusal) for refusal in refused] != [AspectChangedError]:
                yield urn, f"it has the version {stored.version}, {version} was named: {refused}"
            if (value := _description(catalog, "conditional")) != "one":
                yield urn, f"refused, the proposal was stored: {value!r}"
        for version, name in ((stored.version, "conditional"), (NOT_STORED, "absent")):
            for refusal in catalog.write([_description_proposal(name, "three", version)]):
                yield (
                    _urn(name),
                    f"the condition {version} holds, and the proposal is refused: {refusal}",
                )


def _neighbours(make: MakeCatalog) -> Found:
    """Write two aspects of an entity, one of them under a condition that does not hold."""
    with _opened(make) as catalog:
        catalog.write([_description_proposal("neighbours", "one")])
        stored = _stored_aspect(catalog, "neighbours")
        if stored is None or stored.version is None:
            return
        urn = _urn("neighbours")
        status = Proposal(urn, STATUS, {"removed": True})
        refused = catalog.write(
            [_description_proposal("neighbours", "two", NO_SUCH_VERSION), status]
        )
        if len(refused) != 2:
            yield urn, f"one of two proposals cannot be stored, and {len(refused)} are refused"
        if STATUS in catalog.read_many([urn], _SOUGHT).get(urn, {}):
            yield urn, "one of two proposals was stored"


def _close(make: MakeCatalog) -> Found:
    """Close twice, and open another catalog of the same content."""
    catalog = make()
    catalog.open()
    catalog.write([_description_proposal("kept", "one")])
    for time in ("once", "twice"):
        failure = attempt(catalog.close)
        if failure is not None:
            yield "the catalog", f"{time}: {words_of(failure)}"
    with _opened(make) as reopened:
        if reopened.facts.keeps and _description(reopened, "kept") != "one":
            yield _urn("kept"), "written before, it is missing"


_CATALOG_CHECKS: Final[Mapping[Rule, Check[MakeCatalog]]] = {
    Rule.CATALOG_READS: _reads,
    Rule.CATALOG_WRITES: _writes,
    Rule.CATALOG_CONDITIONS: _conditions,
    Rule.CATALOG_ENTITIES: _neighbours,
    Rule.CATALOG_CLOSE: _close,
}


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
    # Those that change the system come last.
    judge({**source_rules.CHECKS, **ingests.CHECKS}, subject, "the source")


def check_catalog(make_catalog: Callable[[], Catalog]) -> None:
    """Prove that a catalog keeps the protocol of `client.base`: reads, writes, conditions, close.

    Args:
        make_catalog: makes a catalog of the same, empty content, a new object each time; it is
            opened and closed by the suite, which leaves a few entities in it.

    Raises:
        ConformanceError: a rule is broken; the message has a line for each.
        MlcatError: the catalog cannot be opened, read or written.
    """
    judge(_CATALOG_CHECKS, make_catalog, "the catalog")
