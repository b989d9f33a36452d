"""The look-up of datasets that models used: what it counts, asks, and never breaks."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from mlcat_ingest.client.base import StoredEntity
from mlcat_ingest.errors import CatalogRequestError, CatalogUnavailableError
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.metadata.urn import dataset, entity_type_of
from mlcat_ingest.pipeline.read import lineage
from mlcat_ingest.pipeline.report.report import DanglingDataset, LineageSummary, Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from support.fakes import FakeSink, FakeSource, model_urn
from support.recipes import a_recipe


def urn(name: str) -> str:
    return dataset("s3", name, "PROD")


def model(name: str, *datasets: str, aspect: str = "mlModelTrainingData") -> Entity:
    listed = aspect.removeprefix("mlModel")
    entries = [{"dataset": urn(one)} for one in datasets]
    aspects: dict[str, Aspect] = {
        aspect: {f"{listed[0].lower()}{listed[1:]}": entries},
        "mlModelProperties": {"name": name},
    }
    return Entity(model_urn(name), aspects)


@dataclass
class Catalog(FakeSink):
    """Holds the datasets `known`; `lookups` are the reads of datasets."""

    known: Collection[str] = ()
    place: str | None = "memory:"
    lookups: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stored.update({urn(name): {"status": {"removed": False}} for name in self.known})

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        if entity_type_of(urns[0]) == "dataset":
            self.lookups.append(list(urns))
        return super().read_many(urns, aspects)


def run(catalog: FakeSink, *entities: Entity, check: bool = True) -> Report:
    recipe = a_recipe("t", evaluate={"enabled": False}, lineage={"check": check})
    options = RunOptions(recipe)
    pages = [entities[at : at + 100] for at in range(0, len(entities), 100)]
    return PipelineRun([FakeSource(pages)], catalog, options).execute()


def test_the_rate_counts_each_dataset_once() -> None:
    catalog = Catalog(known=["lake/a", "lake/b"])
    report = run(
        catalog,
        model("m1", "lake/a", "lake/xc"),
        model("m2", "lake/a", "lake/xc", "lake/xd"),
        model("m3", "lake/b", aspect="mlModelEvaluationData"),
    )
    assert report.exit_code == 0
    assert (report.lineage.datasets, report.lineage.in_catalog) == (4, 2)
    assert report.lineage.dangling == (
        DanglingDataset(urn("lake/xc"), models=2),
        DanglingDataset(urn("lake/xd"), models=1),
    )
    (looked_up,) = catalog.lookups
    assert sorted(looked_up) == [urn(f"lake/{name}") for name in ("a", "b", "xc", "xd")]
    assert urn("lake/xc") not in catalog.stored


def test_200_datasets_are_one_request_and_one_search_for_ten() -> None:
    catalog = Catalog()
    names = [f"lake/t{n}" for n in range(201)]
    models = [model(f"m{n}", *names[n : n + 2]) for n in range(200)]
    report = run(catalog, *models)
    assert [len(batch) for batch in catalog.lookups] == [200, 1]
    assert sorted(one for batch in catalog.lookups for one in batch) == sorted(map(urn, names))
    assert [len(texts) for texts in catalog.searches] == [10]
    assert len(report.lineage.dangling) == 10
    assert report.lineage.datasets - report.lineage.in_catalog == 201


def test_nothing_is_asked_without_datasets_or_search_without_dangling_ones() -> None:
    none, all_there = Catalog(), Catalog(known=["lake/a"])
    assert run(none, model("m")).lineage == LineageSummary()
    assert run(all_there, model("m", "lake/a")).lineage == LineageSummary(1, 1)
    assert none.lookups == none.searches == all_there.searches == []


def test_the_nearest_names_come_first() -> None:
    known = ["raw/orders", "lake/orders_eu", "lake/v2/orders", "archive/2019/old/orders"]
    (dangling,) = run(Catalog(known=known), model("m", "lake/v1/orders.csv")).lineage.dangling
    assert dangling.nearest[0] == urn("lake/v2/orders")
    assert len(dangling.nearest) == 3


def test_a_removed_dataset_is_not_there() -> None:
    catalog = Catalog(known=["lake/a"])
    catalog.stored[urn("lake/a")]["status"] = {"removed": True}
    report = run(catalog, model("m", "lake/a"))
    assert (report.lineage.in_catalog, report.lineage.dangling[0].nearest) == (0, ())


@pytest.mark.parametrize("removed", ["false", 1, None])
def test_only_true_says_that_a_dataset_is_removed(removed: object) -> None:
    catalog = Catalog(known=["a"])
    catalog.stored[urn("a")]["status"] = {"removed": removed}
    assert list(lineage.existing(catalog, [urn("a")])) == [urn("a")]


def test_the_check_can_be_switched_off() -> None:
    catalog = Catalog()
    report = run(catalog, model("m", "lake/a"), check=False)
    assert report.lineage == LineageSummary(not_checked="switched off in the recipe")
    assert catalog.lookups == []


def test_a_sink_that_holds_nothing_is_not_asked() -> None:
    assert run(FakeSink(), model("m", "lake/a")).lineage == LineageSummary()


def test_a_catalog_that_cannot_tell_fails_no_run() -> None:
    class Down(Catalog):
        def read_many(
            self, urns: Sequence[str], aspects: Collection[str]
        ) -> Mapping[str, StoredEntity]:
            if entity_type_of(urns[0]) == "dataset":
                raise CatalogUnavailableError("it is gone")
            return super().read_many(urns, aspects)

    report = run(Down(), model("m", "lake/a"))
    assert report.exit_code == 0
    assert report.lineage == LineageSummary(not_checked="it is gone")


def test_a_catalog_without_search_tells_the_rate_alone() -> None:
    class Blind(Catalog):
        def datasets_like(self, texts: Sequence[str]) -> Sequence[Sequence[str]]:
            del texts
            raise CatalogRequestError("no such field", status=400)

    report = run(Blind(), model("m", "lake/a"))
    assert report.lineage == LineageSummary(1, 0, (DanglingDataset(urn("lake/a"), 1),))


def test_what_is_looked_up_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "MOST", 3)
    report = run(Catalog(), model("m1", "a/1", "a/2"), model("m2", "a/1", "a/3", "a/4"))
    assert (report.lineage.datasets, report.lineage.beyond) == (3, True)


def test_what_is_no_reference_is_left_to_the_catalog() -> None:
    odd = Entity(
        model_urn("m"),
        {"mlModelTrainingData": {"trainingData": ["x", {}, {"dataset": 5}, {"dataset": "no urn"}]}},
    )
    assert run(Catalog(), odd).lineage == LineageSummary()


def test_what_was_read_before_a_failure_is_looked_up_too() -> None:
    catalog = Catalog(known=["lake/a"])
    source = FakeSource([[model("m", "lake/a")]], error=CatalogUnavailableError("broke off"))
    report = PipelineRun([source], catalog, RunOptions(a_recipe("t"))).execute()
    assert report.failure is not None
    assert report.lineage == LineageSummary(1, 1)
