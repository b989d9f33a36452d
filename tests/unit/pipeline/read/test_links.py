"""Models get their features in a run: what is written, asked, counted, and taken back again."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from mlcat_ingest.client.base import StoredEntity
from mlcat_ingest.errors import CatalogUnavailableError, NotAuthorizedError
from mlcat_ingest.links.index import FeatureIndex
from mlcat_ingest.links.rules import Evidence, FeastTags, LinkOptions, UnlinkedModel
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.report.render import as_data, as_text
from mlcat_ingest.pipeline.report.report import FeatureSummary, Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession
from mlcat_ingest.recipe.model import EnrichRule
from mlcat_ingest.sources.base import (
    Capability,
    Finished,
    Page,
    Partition,
    ReadRequest,
    RecordVersion,
)
from support.fakes import FakeRecord, FakeSink, FakeSource, model_urn
from support.recipes import a_recipe

OPTIONS = LinkOptions()
REFS = "feast.feature_refs"


def feature(name: str, table: str = "rides.drivers") -> str:
    return f"urn:li:mlFeature:({table},{name})"


def model(name: str, *refs: str, options: LinkOptions = OPTIONS, **more: Any) -> Entity:
    evidence = Evidence(feast=FeastTags("rides", refs, **more))
    properties = {"name": name, "customProperties": {"kept": "1"}}
    return UnlinkedModel(
        model_urn(name), {"mlModelProperties": properties}, evidence=evidence, options=options
    )


def plain(name: str) -> Entity:
    properties = {"name": name, "customProperties": {"kept": "1"}, "mlFeatures": []}
    return Entity(model_urn(name), {"mlModelProperties": properties})


@dataclass
class Store(FakeSource):
    """A feature store with one table, `rides.drivers`, of the features `names`."""

    names: Sequence[str] = ()
    capabilities: ClassVar = frozenset({Capability.FEATURES})

    def __post_init__(self) -> None:
        self.pages = [
            [Entity(feature(name), {"mlFeatureProperties": {"dataType": "TEXT"}})]
            for name in self.names
        ]

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        yield from super().read(request)
        index = FeatureIndex()
        index.add_table(Naming("feast"), "rides", "drivers", self.names)
        yield Finished(index=index)


@dataclass
class Catalog(FakeSink):
    """Counts `lookups` of features, and fails them with `error`."""

    place: str | None = "fake://catalog"
    lookups: list[list[str]] = field(default_factory=list)
    error: Exception | None = None

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        if entity_type_of(urns[0]) == "mlFeature" and "status" in aspects and len(aspects) == 2:
            self.lookups.append(list(urns))
            if self.error is not None:
                raise self.error
        return super().read_many(urns, aspects)

    def properties(self, name: str) -> Mapping[str, Any]:
        return self.stored[model_urn(name)]["mlModelProperties"]

    def features(self, name: str) -> list[str]:
        return list(self.properties(name)["mlFeatures"])

    def report_of(self, name: str) -> dict[str, str]:
        return {
            key.removeprefix("mlcat.features."): text
            for key, text in self.properties(name)["customProperties"].items()
            if key.startswith("mlcat.features.")
        }


def ingest(catalog: FakeSink, models: Iterable[Entity], *names: str) -> Report:
    sources = [Store(names=names), FakeSource([list(models)])]
    return PipelineRun(
        sources, catalog, RunOptions(a_recipe("t", evaluate={"enabled": False}))
    ).execute()


def test_a_model_has_the_features_that_are_there_and_says_by_which_rule() -> None:
    catalog = Catalog()
    report = ingest(catalog, [model("m", "drivers:b", "drivers:a", "drivers:c")], "a", "b")
    assert catalog.features("m") == [feature("a"), feature("b")]
    assert catalog.report_of("m") == {"resolvedBy": REFS, "unresolved": "rides.drivers:c"}
    assert report.exit_code == 0
    assert report.features == FeatureSummary({REFS: 1}, unknown=1)
    assert report.notes == {"feature_unknown": 1}
    assert report.note_examples == {"feature_unknown": (f"{model_urn('m')} m: rides.drivers:c",)}


def test_links_are_part_of_the_report() -> None:
    flagged = [model("m2", "drivers:a", is_cut=True, count=2), model("m3", "drivers:x")]
    report = ingest(Catalog(), [model("m1", "drivers:a"), *flagged], "a")
    assert "  features     2 models linked (2 by feast.feature_refs); 1 approximately\n" in (
        text := as_text(report)
    )
    line = "  features     1 feature name is in no feature table: rides.drivers:x of m3\n"
    assert line in text
    assert "feature_unknown" not in text
    assert as_data(report)["features"] == {
        "models": 2,
        "linked": {REFS: 2},
        "approximate": 1,
        "unknown": 1,
        "ambiguous": 0,
        "not_looked_up": 0,
    }


def test_a_feature_that_the_catalog_refused_is_not_linked() -> None:
    catalog = Catalog(refuse=[feature("b")])
    ingest(catalog, [model("m", "drivers:a", "drivers:b")], "a", "b")
    assert catalog.features("m") == [feature("a")]


def test_a_feature_that_is_marked_as_removed_is_not_linked() -> None:
    catalog = Catalog()
    for name, removed in (("here", False), ("gone", True)):
        catalog.stored[feature(name, "rides.others")] = {"status": {"removed": removed}}
    ingest(catalog, [model("m", "others:here", "others:gone")])
    assert catalog.features("m") == [feature("here", "rides.others")]


def test_runs_without_evidence_cost_no_request_and_those_with_it_one_for_200_features() -> None:
    without, catalog = Catalog(), Catalog()
    ingest(without, [plain(f"m{n}") for n in range(500)])
    assert without.lookups == []
    names = [f"f{n}" for n in range(300)]
    models = [model(f"m{n}", *(f"drivers:{name}" for name in names)) for n in range(450)]
    ingest(catalog, models, *names)
    assert sorted(map(len, catalog.lookups)) == [100, 200]


def test_what_was_forgotten_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcat_ingest.pipeline.read.links.KNOWN", 2)
    monkeypatch.setattr("mlcat_ingest.pipeline.read.links.SAME", 2)
    catalog = Catalog()
    names = [f"f{n}" for n in range(300)]
    ingest(catalog, [model(f"m{n}", f"drivers:{name}") for n, name in enumerate(names)], *names)
    assert [catalog.features(f"m{n}") for n in (0, 299)] == [[feature("f0")], [feature("f299")]]


def test_a_tag_that_is_gone_takes_our_links_and_what_is_reported_of_them_with_it() -> None:
    catalog = Catalog()
    ingest(catalog, [model("m", "drivers:a", "drivers:x")], "a")
    theirs = feature("theirs", "other")
    stored = dict(catalog.properties("m"))
    catalog.put(
        model_urn("m"), "mlModelProperties", {**stored, "mlFeatures": [theirs, feature("a")]}
    )
    ingest(catalog, [plain("m")], "a")
    assert catalog.features("m") == [theirs]
    assert catalog.report_of("m") == {}
    assert catalog.properties("m")["customProperties"]["kept"] == "1"


def test_where_links_are_switched_off_those_that_are_there_stay() -> None:
    catalog = Catalog()
    ingest(catalog, [model("m", "drivers:a")], "a")
    ingest(catalog, [Entity(model_urn("m"), {"mlModelProperties": {"name": "m"}})], "a")
    assert catalog.features("m") == [feature("a")]


def test_a_catalog_that_does_not_show_features_keeps_the_links_that_it_has() -> None:
    catalog = Catalog()
    catalog.stored[feature("far", "rides.others")] = {"status": {"removed": False}}
    models = [model("m", "others:far", "drivers:a"), model("n", "drivers:a")]
    ingest(catalog, models, "a")
    catalog.error = NotAuthorizedError("features are not for you")
    catalog.lookups.clear()
    report = ingest(catalog, models, "a")
    assert report.exit_code == 0
    assert len(catalog.lookups) == 1
    assert catalog.features("m") == [feature("a"), feature("far", "rides.others")]
    assert catalog.features("n") == [feature("a")]
    assert report.features == FeatureSummary({REFS: 2}, not_looked_up=1)
    assert report.note_examples["features_not_looked_up"] == (
        f"{model_urn('m')} m: features are not for you",
    )


def test_a_catalog_that_is_gone_ends_the_run() -> None:
    catalog = Catalog(error=CatalogUnavailableError("gone"))
    report = ingest(catalog, [model("m", "drivers:a")], "a")
    assert report.exit_code == 1
    assert model_urn("m") not in catalog.stored


def test_where_there_is_no_catalog_the_stores_of_the_run_tell() -> None:
    sink = FakeSink()
    ingest(sink, [model("m", "drivers:a", "others:b")], "a")
    assert sink.stored[model_urn("m")]["mlModelProperties"]["mlFeatures"] == [feature("a")]


def test_dangling_links_are_written_if_asked_for() -> None:
    catalog = Catalog()
    ingest(catalog, [model("m", "drivers:x", options=LinkOptions(dangling=True))], "a")
    assert catalog.features("m") == [feature("x")]


def test_names_of_references_are_shown_in_bounds_and_without_control_characters() -> None:
    catalog = Catalog()
    refs = [f"drivers:x{n}" for n in range(30)]
    ingest(catalog, [model("m", "drivers:\x1b[2J" + "y" * 500, *refs)])
    text = catalog.report_of("m")["unresolved"]
    assert text.startswith("rides.drivers:\\u001b[2Jyyy")
    assert text.endswith(", … and 11 more")
    assert len(text) < 1_000


def test_rules_of_the_recipe_add_to_models_that_are_linked() -> None:
    catalog = Catalog()
    sources = [Store(names=["a"]), FakeSource([[model("m", "drivers:a")]])]
    rule = EnrichRule.model_validate({"match": {"entity": ["mlModel"]}, "add_tags": ["gold"]})
    options = RunOptions(a_recipe("t", evaluate={"enabled": False}, enrich=[rule]))
    PipelineRun(sources, catalog, options).execute()
    assert catalog.features("m") == [feature("a")]
    assert catalog.stored[model_urn("m")]["globalTags"] == {"tags": [{"tag": "urn:li:tag:gold"}]}


@dataclass
class Remembering(FakeSource):
    """Reads models of one part and remembers them by what they are mapped to."""

    models: Sequence[Entity] = ()

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        identity = {"thing": model_urn("0")}
        partition = request.state.partition(Partition("fake:1:default", "", identity, ""))
        records = [FakeRecord(one, RecordVersion("thing", one.urn)) for one in self.models]
        yield Page(records, partition)
        yield Finished(partition, {"read": True}, complete=True)


def test_a_run_that_did_not_change_is_linked_once_its_features_are_there(tmp_path: Path) -> None:
    catalog = Catalog()
    url = f"sqlite:///{tmp_path / 'state.db'}"

    def run(*names: str) -> Report:
        sources = [Store(names=names), Remembering(models=[model("m", "drivers:a")])]
        state = StateSession(url, StateOptions("t"))
        options = RunOptions(a_recipe("t", evaluate={"enabled": False}), state=state)
        return PipelineRun(sources, catalog, options).execute()

    assert run().entities["mlModel"].created == 1
    assert catalog.features("m") == []
    second = run("a")
    assert [one.full for one in second.passes] == [False]
    assert second.entities["mlModel"].updated == 1
    assert catalog.features("m") == [feature("a")]
    reads = len(catalog.reads)
    assert run("a").entities["mlModel"].unchanged == 1
    # State asks once whether the catalog still has what it remembers; nothing is merged.
    assert catalog.reads[reads:].count([model_urn("m")]) == 1
