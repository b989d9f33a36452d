"""A catalog of the five required methods: what it declares that it cannot do, and a run into it."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import pytest

from mlcat_ingest.client.base import CANNOT_ANSWER, Catalog, CatalogFacts, StoredEntity
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import AspectRejectedError
from mlcat_ingest.metadata.proposal import Entity, Proposal
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from support.fakes import group_urn, model_urn
from support.recipes import run

URN = model_urn("m")


class SmallCatalog(Catalog):
    """Keeps proposals, and reads none."""

    def __init__(self) -> None:
        self.written: list[Proposal] = []

    def open(self, *, read_only: bool = False) -> str:
        return "to read" if read_only else "a small catalog"

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        del urns, aspects
        return {}

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        self.written.extend(proposals)
        return ()

    def check(self, *, write: bool = False) -> Iterator[Finding]:
        yield Finding("the small catalog", "ok", "written" if write else "")

    def close(self, *, complete: bool = True) -> None:
        """Nothing is open."""


def test_a_catalog_has_five_methods_of_its_own() -> None:
    required = {"open", "read_many", "write", "check", "close"}
    assert Catalog.__abstractmethods__ == required
    assert len([name for name in dir(Catalog) if not name.startswith("_")]) <= 13
    assert required <= SmallCatalog.__dict__.keys()
    incomplete = type("Incomplete", (Catalog,), {"open": SmallCatalog.open})
    with pytest.raises(TypeError, match="abstract"):
        incomplete()


def test_what_a_catalog_does_not_implement_it_declares() -> None:
    catalog = SmallCatalog()
    assert catalog.facts == CatalogFacts(
        keeps=True, exists=True, batch_size=MAX_REQUEST_ITEMS, enforces_conditions=None
    )
    assert (catalog.traffic.requests_made(), catalog.traffic.pending_request()) == (0, None)
    assert catalog.get_aspect(URN, "status", 1) is None
    with pytest.raises(CANNOT_ANSWER, match="the catalog cannot be searched"):
        catalog.search.members(group_urn("g"))
    evaluation = catalog.evaluator.evaluate_batch([URN], should_push=True, test_urns=())
    assert evaluation.outcomes == {}
    assert evaluation.not_evaluated == "the catalog does not evaluate metadata tests"


def test_a_run_into_a_catalog_that_only_reads_and_writes() -> None:
    catalog = SmallCatalog()
    report = run(catalog, Entity(URN, {"mlModelProperties": {"name": "m"}}))
    assert report.failure is None
    assert report.evaluation.not_evaluated == "the catalog does not evaluate metadata tests"
    assert {one.entity_urn for one in catalog.written} == {URN}
