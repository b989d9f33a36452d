"""All that a run adds to what sources give: enrichment, links, results of tests, its own report."""

import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Entity, Proposal
from mlcat_ingest.metadata_tests.evaluate import evaluate, merge_results, read_test
from mlcat_ingest.pipeline.merge.entity import merge_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.pipeline.read.enrich import Enricher
from mlcat_ingest.pipeline.report.catalog import RecipeListing, proposals_of
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.recipe.metadata_test_files import read_tests
from mlcat_ingest.recipe.model import EnrichRule
from support.golden import as_lines, assert_valid

HERE = Path(__file__).parent
STARTED_MS = 1_700_000_000_000
RUN_ID = "prod-2023_11_14-22_13_20-000000"

MODEL = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,run-1,PROD)"
GROUP = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,churn,PROD)"
TABLE = "urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,shop.people)"
FEATURE = "urn:li:mlFeature:(shop.people,age)"
KEY = "urn:li:mlPrimaryKey:(shop.people,id)"
OWN = {"customProperties": {"mlcat.source": "mlflow:0123456789ab:default"}}

ENTITIES = (
    Entity(MODEL, {"mlModelProperties": {**OWN, "name": "r", "mlFeatures": [FEATURE]}}),
    Entity(GROUP, {"mlModelGroupProperties": {**OWN, "name": "churn"}}),
    Entity(TABLE, {"mlFeatureTableProperties": {**OWN, "mlFeatures": [FEATURE]}}),
    Entity(FEATURE, {"mlFeatureProperties": {**OWN, "dataType": "ORDINAL"}}),
    Entity(KEY, {"mlPrimaryKeyProperties": {**OWN, "sources": []}}),
)

RULE = EnrichRule.model_validate(
    {
        "add_tags": ["pii"],
        "add_terms": ["Loss"],
        "set_domain": "growth",
        "add_owners": ["jane", {"owner": "urn:li:corpGroup:ml", "type": "urn:li:ownershipType:x"}],
        "structured_properties": {"tier": [1, "gold"]},
    }
)

TESTS = """
- id: described
  name: Described
  category: Documentation
  description: People can read what it is.
  definition:
    on: {types: [mlModel, mlModelGroup, mlFeatureTable, mlFeature, mlPrimaryKey]}
    rules: {property: globalTags.tags.tag, operator: exists}
- id: deprecated
  name: Deprecated
  category: Life cycle
  definition:
    on: {types: [mlModel, mlModelGroup, mlFeatureTable, mlFeature, mlPrimaryKey]}
    rules: {property: deprecation.deprecated, operator: exists}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(time, "time_ns", lambda: STARTED_MS * 1_000_000)
    return tmp_path


def enriched(_: Path) -> Iterable[Proposal]:
    for entity in Enricher([RULE]).apply(ENTITIES):
        yield from merge_entity(entity, None, MergeRules(Writer("nightly"))).proposals


def evaluated(folder: Path) -> Iterable[Proposal]:
    """Yield the tests of a file, and their results on enriched entities."""
    file = folder / "tests.yml"
    file.write_text(TESTS)
    infos = read_tests(file)
    stored = {one.urn: one.aspects for one in Enricher([RULE]).apply(ENTITIES)}

    def fetch(urns: Collection[str], _: Collection[str] | None) -> dict[str, dict[str, Any]]:
        return {
            urn: {name: SimpleNamespace(value=value) for name, value in stored[urn].items()}
            for urn in urns
        }

    tests = [test for one in infos if (test := read_test(one.entity_urn, one.aspect))]
    urns = [one.urn for one in ENTITIES]
    yield from infos
    for urn, results in evaluate(fetch, urns, tests, "urn:li:corpuser:ada").items():
        yield Proposal(urn, "testResults", merge_results({}, results, None) or {})


def run_report(_: Path) -> Iterable[Proposal]:
    """Yield the proposals about a run, without its text, of which there are other tests."""
    report = Report("prod", STARTED_MS, STARTED_MS + 2_500, RUN_ID, records=7, proposals_sent=9)
    for one in proposals_of(report, RecipeListing(("mlflow",), "rest", "mlcat-ingest 1.2.3")):
        if "report" not in one.aspect:
            yield one
            continue
        structured = {**one.aspect["structuredReport"], "serializedValue": "its text"}
        aspect = {**one.aspect, "report": "its text", "structuredReport": structured}
        yield Proposal(one.entity_urn, one.aspect_name, aspect)


MAKERS: tuple[Callable[[Path], Iterable[Proposal]], ...] = (enriched, evaluated, run_report)


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: str(maker.__name__))
def test_a_run_sends_these_proposals(
    maker: Callable[[Path], Iterable[Proposal]], folder: Path, *, update_golden: bool
) -> None:
    proposals = list(maker(folder))
    assert_valid(proposals)
    found = as_lines(Entity(one.entity_urn, {one.aspect_name: one.aspect}) for one in proposals)
    golden = HERE / f"{maker.__name__}.jsonl"
    if update_golden:
        golden.write_text(found)
    assert found == golden.read_text()
