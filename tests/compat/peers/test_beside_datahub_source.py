"""`compat: datahub` beside DataHub's own mlflow source, over one store and into one catalog."""

import json
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from datahub.emitter.mcp import MetadataChangeProposalWrapper as Mcp
from datahub.emitter.rest_emitter import DatahubRestEmitter
from datahub.metadata import schema_classes as models

from mlcat_ingest import Pipeline, Recipe, Report
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.catalog_server import RunningCatalog, running_catalog
from support.commands import ended
from support.datahub_cli import DataHubCli

pytestmark = pytest.mark.filterwarnings("ignore")

PLATFORM = "urn:li:dataPlatform:mlflow"
GROUP = f"urn:li:mlModelGroup:({PLATFORM},50% scorer,PROD)"
EXPERIMENT = f"urn:li:mlModelGroup:({PLATFORM},experiment:churn,PROD)"
DEFAULT_EXPERIMENT = f"urn:li:mlModelGroup:({PLATFORM},experiment:Default,PROD)"
VERSIONS = [f"urn:li:mlModel:({PLATFORM},50% scorer_{number},PROD)" for number in (1, 2)]
DOMAIN = "urn:li:domain:growth"
JANE = "urn:li:corpuser:jane"
REVIEWED = "urn:li:tag:reviewed"
Aspects = dict[str, dict[str, dict[str, Any]]]


@dataclass
class Two:
    """One MLflow store and one catalog, and the two sources that bring the one to the other."""

    uri: str
    run_id: str
    catalog: RunningCatalog
    cli: DataHubCli
    config: dict[str, Any] = field(default_factory=dict)

    def theirs(self) -> None:
        recipe = {
            "pipeline_name": "theirs",
            "source": {"type": "mlflow", "config": {"tracking_uri": self.uri}},
            "sink": {"type": "datahub-rest", "config": {"server": self.catalog.url}},
        }
        path = self.cli.home / "theirs.yml"
        path.write_text(yaml.safe_dump(recipe))
        self.cli.run("ingest", "-c", str(path), "--no-spinner")

    def recipe(self) -> dict[str, Any]:
        return {
            "name": "ours",
            "source": {
                "type": "mlflow",
                "config": {"tracking_uri": self.uri, "compat": "datahub", **self.config},
            },
            "sink": {"type": "rest", "config": {"server": self.catalog.url}},
            "state": {"url": f"sqlite:///{self.cli.home}/state.db"},
        }

    def ours(self, *, full: bool = False) -> Report:
        report = Pipeline(Recipe.parse(json.dumps(self.recipe()))).run(full=full)
        assert report.exit_code == 0, report
        return report

    def retract(self) -> None:
        path = self.cli.home / "ours.yml"
        path.write_text(json.dumps(self.recipe()))
        ended([sys.executable, "-m", "mlcat_ingest", "retract", str(path), "--yes"])

    @property
    def run_model(self) -> str:
        return f"urn:li:mlModel:({PLATFORM},{self.run_id},PROD)"

    def of_people(self) -> None:
        """Do by the SDK what people do in the catalog to entities that are there."""
        with DatahubRestEmitter(self.catalog.url) as emitter:
            for urn in (GROUP, VERSIONS[1]):
                for aspect in aspects_of_people(urn):
                    emitter.emit(Mcp(entityUrn=urn, aspect=aspect))

    def stored(self) -> Aspects:
        """Return every aspect of the models and groups."""
        store = self.catalog.store
        found: Aspects = {}
        for kind in ("mlModel", "mlModelGroup"):
            urns = store.list_urns(kind).urns
            for urn, aspects in store.get_many(urns, None).items():
                found[urn] = {name: dict(one.value) for name, one in aspects.items()}
        return found


def aspects_of_people(urn: str) -> list[Any]:
    stamp = models.AuditStampClass(time=1, actor=JANE)
    docs = (
        models.EditableMLModelGroupPropertiesClass(description="Ask Jane first.")
        if urn == GROUP
        else models.EditableMLModelPropertiesClass(description="Ask Jane first.")
    )
    link = models.InstitutionalMemoryMetadataClass("https://wiki/churn", "the wiki", stamp)
    owner = models.OwnerClass(JANE, models.OwnershipTypeClass.BUSINESS_OWNER)
    return [
        docs,
        models.InstitutionalMemoryClass([link]),
        models.OwnershipClass([owner], lastModified=stamp),
        models.GlobalTagsClass([models.TagAssociationClass(REVIEWED)]),
        models.DomainsClass([DOMAIN]),
    ]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    """A run behind two versions of a registered model, with a tag, an alias and a stage."""
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    with warnings.catch_warnings(), mlflow_client(uri) as client:
        warnings.simplefilter("ignore")
        run = client.create_run(client.create_experiment("churn"), tags={"squad": "growth"})
        client.log_param(run.info.run_id, "depth", 3)
        client.log_metric(run.info.run_id, "auc", 0.5)
        client.set_terminated(run.info.run_id)
        client.create_registered_model("50% scorer", description="Scores customers.")
        for _ in range(2):
            client.create_model_version("50% scorer", f"{tmp_path}/model", run.info.run_id)
        client.set_registered_model_alias("50% scorer", "champion", "2")
        client.transition_model_version_stage("50% scorer", "2", "Production")
    with running_catalog(tmp_path / "catalog.db") as catalog:
        yield Two(uri, run.info.run_id, catalog, DataHubCli(catalog.url, tmp_path))


def people_are_heard(stored: Aspects) -> None:
    for urn in (GROUP, VERSIONS[1]):
        aspects = stored[urn]
        docs = "editableMlModelGroupProperties" if urn == GROUP else "editableMlModelProperties"
        assert aspects[docs]["description"] == "Ask Jane first."
        assert [each["url"] for each in aspects["institutionalMemory"]["elements"]] == [
            "https://wiki/churn"
        ]
        assert JANE in [each["owner"] for each in aspects["ownership"]["owners"]]
        assert aspects["domains"]["domains"] == [DOMAIN]


def our_facts_are_there(two: Two, stored: Aspects) -> None:
    version = stored[VERSIONS[1]]
    properties = version["mlModelProperties"]
    assert properties["customProperties"]["mlflow.run_model"] == two.run_model
    assert properties["groups"] == [GROUP]
    assert [each["name"] for each in properties["trainingMetrics"]] == ["auc"]
    assert version["versionProperties"]["aliases"] == [{"versionTag": "champion"}]
    assert stored[GROUP]["mlModelGroupProperties"]["customProperties"]["mlflow.latest_version"]
    run = stored[two.run_model]["mlModelProperties"]
    assert run["customProperties"]["squad"] == "growth"
    assert run["groups"] == [EXPERIMENT]


def tags_of(stored: Aspects, urn: str) -> list[str]:
    return [each["tag"] for each in stored[urn]["globalTags"]["tags"]]


def test_ours_after_theirs_adds_and_takes_nothing(two: Two) -> None:
    two.theirs()
    assert set(two.stored()) == {GROUP, *VERSIONS}
    two.of_people()
    before = two.stored()
    two.ours()
    after = two.stored()
    assert set(after) == {GROUP, *VERSIONS, EXPERIMENT, DEFAULT_EXPERIMENT, two.run_model}
    people_are_heard(after)
    our_facts_are_there(two, after)
    assert REVIEWED in tags_of(after, VERSIONS[1])
    # What the other source said of each entity still stands there, entry by entry.
    jobs = before[VERSIONS[1]]["mlModelProperties"]["trainingJobs"]
    assert after[VERSIONS[1]]["mlModelProperties"]["trainingJobs"] == jobs != []
    for urn in VERSIONS:
        was, now = (each[urn]["versionProperties"] for each in (before, after))
        assert (now["versionSet"], now["sortId"]) == (was["versionSet"], was["sortId"])
    sets = two.catalog.store.list_urns("versionSet").urns
    assert list(sets) == [after[VERSIONS[0]]["versionProperties"]["versionSet"]]


def test_retract_leaves_theirs_where_it_was(two: Two) -> None:
    two.theirs()
    before = two.stored()
    two.ours()
    two.retract()
    after = two.stored()
    for urn in (GROUP, *VERSIONS):
        assert not after[urn].get("status", {}).get("removed"), urn
    for urn in VERSIONS:
        was, now = (each[urn]["mlModelProperties"] for each in (before, after))
        assert now["trainingJobs"] == was["trainingJobs"] != []
        assert "mlflow.run_model" not in now["customProperties"]
    for urn in (EXPERIMENT, two.run_model):
        assert after[urn]["status"]["removed"]


def test_theirs_again_overwrites_and_our_next_full_pass_repairs(two: Two) -> None:
    two.theirs()
    two.ours()
    two.of_people()
    two.theirs()
    wiped = two.stored()
    people_are_heard(wiped)
    # What the page says of it: whole aspects are replaced, so tags of people are gone as well.
    assert "mlflow.run_model" not in wiped[VERSIONS[1]]["mlModelProperties"]["customProperties"]
    assert REVIEWED not in tags_of(wiped, VERSIONS[1])
    assert wiped[VERSIONS[1]]["versionProperties"]["aliases"] == []
    two.ours(full=True)
    repaired = two.stored()
    people_are_heard(repaired)
    our_facts_are_there(two, repaired)
    assert set(repaired) == set(wiped)


def test_a_run_is_the_process_instance_that_theirs_makes(two: Two) -> None:
    def executions() -> dict[str, set[str]]:
        kinds = ("dataProcessInstance", "container")
        return {kind: set(two.catalog.store.list_urns(kind).urns) for kind in kinds}

    two.config = {"lineage": {"process_instances": True}}
    two.ours()
    ours = executions()
    assert [len(urns) for urns in ours.values()] == [1, 2]
    two.theirs()
    two.ours(full=True)
    assert executions() == ours
    (run,) = ours["dataProcessInstance"]
    stored = two.stored()
    for urn in (two.run_model, *VERSIONS):
        assert stored[urn]["mlModelProperties"]["trainingJobs"] == [run]
    held = two.catalog.store.get_many([run])[run]
    assert held["container"].value["container"] in ours["container"]
    custom = held["dataProcessInstanceProperties"].value["customProperties"]
    assert custom["mlflow.run_id"] == two.run_id
    # Those of the other source.
    assert held["dataProcessInstanceOutput"].value["outputEdges"] != []
    before = executions(), two.stored()
    two.ours(full=True)
    assert (executions(), two.stored()) == before
    # Switched off, it is hidden until the other source has run again.
    two.config = {}
    two.ours()
    assert status_of(two, run)["removed"]
    two.theirs()
    assert not status_of(two, run)["removed"]


def status_of(two: Two, urn: str) -> dict[str, Any]:
    return dict(two.catalog.store.get_many([urn], ["status"])[urn]["status"].value)
