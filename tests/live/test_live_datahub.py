"""The main job on a server that runs already, such as DataHub: `MLCAT_LIVE_GMS` names it.

Each test has an instance of its own, so that a server may be shared, and deletes its entities.
Reads are those of DataHub's SDK. A search index follows some seconds after a write, so that
searches are repeated.
"""

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.client.rest.catalog import RestCatalog
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.cli import report_of
from support.seeded_store import START_MS

GMS = os.environ.get("MLCAT_LIVE_GMS", "")
TOKEN = os.environ.get("MLCAT_LIVE_TOKEN", "")
LIMITED = os.environ.get("MLCAT_LIVE_TOKEN_LIMITED", "")
"""A token whose user may edit all entities, view all but groups of models, and delete nothing."""

PATIENCE_S: Final = 60
"""How long a search is repeated; the index of a server follows within seconds."""

HOSTILE: Final = "Zürich شوكولاتة 模型 e\u0301 🍫"
"""Latin-1, Arabic, Chinese, a combining mark, a character beyond U+FFFF."""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not GMS, reason="MLCAT_LIVE_GMS names no server"),
]
needs_limited = pytest.mark.skipif(
    not LIMITED, reason="MLCAT_LIVE_TOKEN_LIMITED is no token with fewer rights"
)


@dataclass
class LiveWorld:
    """An MLflow store, a recipe with an instance of its own, and what the server has of both."""

    folder: Path
    instance: str
    words: str = ""
    runs: dict[str, str] = field(default_factory=dict)

    @property
    def naming(self) -> Naming:
        return Naming(instance=self.instance)

    @cached_property
    def graph(self) -> Any:
        """The DataHub SDK's client of the server."""
        from datahub.ingestion.graph.client import DatahubClientConfig, DataHubGraph

        return DataHubGraph(DatahubClientConfig(server=GMS, token=TOKEN or None))

    @property
    def experiment(self) -> str:
        return f"churn{self.words}"

    @property
    def scorer(self) -> str:
        return f"scorer{self.words}"

    @property
    def groups(self) -> list[str]:
        naming = self.naming
        groups = [naming.group(self.experiment), naming.group("Default")]
        return [one.urn for one in (*groups, naming.registered_group(self.scorer))]

    @property
    def models(self) -> list[str]:
        versions = [self.version(number) for number in ("1", "2", "3")]
        return [*map(self.run, self.runs), *versions]

    @property
    def urns(self) -> list[str]:
        """The entities that the recipe makes."""
        return [*self.models, *self.groups]

    def run(self, name: str) -> str:
        return self.naming.model(self.runs[name]).urn

    def version(self, number: str) -> str:
        return self.naming.version(self.scorer, number).urn

    def train(self) -> None:
        from mlflow.entities import Metric, Param

        with self.store() as client:
            experiment = client.create_experiment(self.experiment)
            client.create_registered_model(self.scorer, description=f"who leaves{self.words}")
            for at, name in enumerate("abc"):
                tags = {"mlflow.user": "ada", f"note{self.words}": f"so {name}{self.words}"}
                run_name = f"{name}{self.words}"
                run = client.create_run(experiment, START_MS + at, tags, run_name)
                self.runs[name] = run.info.run_id
                metric = Metric("auc", 0.9, START_MS, 0)
                params = [Param("depth", str(at)), Param("words", f"p{self.words}")]
                client.log_batch(run.info.run_id, [metric], params)
                client.set_terminated(run.info.run_id, "FINISHED", START_MS + 900)
                client.create_model_version(self.scorer, "s3://bucket/model", run.info.run_id)
            client.set_registered_model_alias(self.scorer, "champion", "1")

    def store(self) -> Any:
        return mlflow_client(f"sqlite:///{self.folder}/mlflow.db")

    def recipe(self, more: str = "", token: str = TOKEN) -> str:
        path = self.folder / "recipe.yml"
        path.write_text(
            f"name: {self.instance}\n"
            "source:\n  type: mlflow\n  config:\n"
            f"    {{tracking_uri: 'sqlite:///mlflow.db', instance: {self.instance}}}\n"
            f"sink: {{type: rest, config: {{server: '{GMS}', token: '{token}'}}}}\n"
            f"report_to_catalog: false\nevaluate: {{enabled: false}}\n{more}"
        )
        return str(path)

    def ingest(
        self, *options: str, more: str = "", token: str = TOKEN, expected: int = 0
    ) -> dict[str, Any]:
        return report_of(self.recipe(more, token), *options, code=expected)

    def retract(self) -> int:
        return call(["retract", self.recipe(), "--yes", "-q"])

    def read(self, urn: str, aspect: str) -> Any:
        """Return an aspect as the SDK reads it; None if there is none."""
        from datahub.metadata.schema_classes import ASPECT_NAME_MAP

        value = self.graph.get_aspect(urn, ASPECT_NAME_MAP[aspect])
        return None if value is None else value.to_obj()

    def emit(self, urn: str, aspect: Any) -> None:
        """Write an aspect as another tool does, with the SDK."""
        from datahub.emitter.mcp import MetadataChangeProposalWrapper

        self.graph.emit(MetadataChangeProposalWrapper(entityUrn=urn, aspect=aspect))

    def custom(self, urn: str) -> dict[str, str]:
        kind = f"{urn.split(':')[2]}Properties"
        found: dict[str, str] = (self.read(urn, kind) or {}).get("customProperties", {})
        return found

    def removed(self) -> set[str]:
        return {urn for urn in self.urns if (self.read(urn, "status") or {}).get("removed", False)}

    def latest(self) -> set[str]:
        """Return the numbers of the versions that count as the latest."""
        numbers = ("1", "2", "3")
        versions = {one: self.read(self.version(one), "versionProperties") for one in numbers}
        return {one for one, value in versions.items() if value and value.get("isLatest")}

    def searched(self) -> set[str]:
        """Return the versions that a search finds, which leaves out all but the latest ones."""
        numbers = {self.version(one): one for one in ("1", "2", "3")}
        found = self.graph.execute_graphql(
            "query($urns: [String!]) { searchAcrossEntities(input: {types: [MLMODEL], query: "
            '"*", orFilters: [{and: [{field: "urn", values: $urns}]}]}) '
            "{ searchResults { entity { urn } } } }",
            variables={"urns": list(numbers)},
        )
        results = found["searchAcrossEntities"]["searchResults"]
        return {numbers[one["entity"]["urn"]] for one in results}

    def review(self, urn: str) -> None:
        """Add a property as a person does, with the SDK."""
        from datahub.metadata.schema_classes import MLModelPropertiesClass

        properties = self.graph.get_aspect(urn, MLModelPropertiesClass)
        properties.customProperties = {**properties.customProperties, "reviewed": "yes"}
        self.emit(urn, properties)

    def clean_up(self) -> None:
        """Delete every entity for good."""
        version = self.read(self.version("1"), "versionProperties")
        sets = [] if version is None else [version["versionSet"]]
        with CatalogClient(GMS, TOKEN) as client:
            for urn in (*self.urns, *sets):
                client.delete_entity(urn)


def eventually(find: Callable[[], set[str]], expected: set[str]) -> None:
    """Wait until the search index has followed."""
    until = time.monotonic() + PATIENCE_S
    while (found := find()) != expected and time.monotonic() < until:
        time.sleep(1)
    assert found == expected


def new_world(folder: Path, words: str = "") -> Iterator[LiveWorld]:
    world = LiveWorld(folder, f"live-{secrets.token_hex(6)}", words)
    world.train()
    yield world
    world.clean_up()
    world.graph.close()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveWorld]:
    yield from new_world(tmp_path)


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[LiveWorld]:
    yield from new_world(tmp_path, f" {HOSTILE}")


def test_the_main_job(live: LiveWorld) -> None:
    created = live.ingest()["entities"]
    assert (created["mlModel"]["created"], created["mlModelGroup"]["created"]) == (6, 3)
    properties = live.read(live.run("b"), "mlModelProperties")
    assert properties["hyperParams"][0]["value"] == "1"
    assert properties["trainingMetrics"][0]["name"] == "auc"
    assert properties["groups"] == [live.groups[0]]
    assert live.ingest()["proposals_sent"] == 0
    assert live.ingest("--full")["proposals_sent"] == 0
    assert call(["verify", live.recipe(), "-q"]) == 0


def test_names_of_every_script(hostile: LiveWorld) -> None:
    hostile.ingest()
    properties = hostile.read(hostile.run("b"), "mlModelProperties")
    assert properties["name"] == f"b {HOSTILE}"
    assert {one["name"]: one["value"] for one in properties["hyperParams"]} == {
        "depth": "1",
        "words": f"p {HOSTILE}",
    }
    assert properties["customProperties"][f"note {HOSTILE}"] == f"so b {HOSTILE}"
    group = hostile.read(hostile.groups[2], "mlModelGroupProperties")
    assert group["name"] == f"scorer {HOSTILE}"
    assert group["description"] == f"who leaves {HOSTILE}"
    assert hostile.ingest("--full")["proposals_sent"] == 0


def test_the_run_and_its_owner_on_each_entity(live: LiveWorld) -> None:
    live.ingest()
    for urn in (live.run("b"), live.version("2")):
        owners = live.read(urn, "ownership")["owners"]
        assert [one["owner"] for one in owners] == ["urn:li:corpuser:ada"]
        system = live.graph.get_entity_raw(urn, ["mlModelProperties"])["aspects"]
        written = system["mlModelProperties"]["systemMetadata"]
        assert written["pipelineName"] == live.instance
        assert written["runId"] not in {"", "no-run-id-provided"}


def test_an_alias_that_moves_twice(live: LiveWorld) -> None:
    live.ingest()
    for number in ("3", "2"):
        with live.store() as client:
            client.set_registered_model_alias("scorer", "champion", number)
        live.ingest()
        versions = {
            one: live.read(live.version(one), "versionProperties") for one in ("1", "2", "3")
        }
        aliases = {one: value.get("aliases") or [] for one, value in versions.items()}
        assert [one for one, found in aliases.items() if found] == [number]
        assert live.latest() == {"3"}


def test_deletion_and_return_of_the_newest_version(live: LiveWorld) -> None:
    live.ingest()
    eventually(live.searched, {"3"})
    with live.store() as client:
        client.delete_model_version("scorer", "3")
    live.ingest("--full")
    assert live.latest() == {"2"}
    eventually(live.searched, {"2"})
    assert live.ingest("--full")["proposals_sent"] == 0


def test_another_tool_drops_the_mark_of_the_latest_version(live: LiveWorld) -> None:
    from datahub.metadata.schema_classes import VersionPropertiesClass

    live.ingest()
    for number in ("1", "2", "3"):
        urn = live.version(number)
        version = live.graph.get_aspect(urn, VersionPropertiesClass)
        version.isLatest = None
        live.emit(urn, version)
    live.ingest("--full")
    assert live.latest() == {"3"}
    eventually(live.searched, {"3"})
    assert live.ingest("--full")["proposals_sent"] == 0


def test_a_second_writer_between_our_read_and_our_write(
    live: LiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.ingest()
    urn = live.run("b")
    write, writes = RestCatalog.write, [urn]

    def write_second(catalog: RestCatalog, proposals: Sequence[Proposal]) -> Any:
        if writes and writes[0] in {one.entity_urn for one in proposals}:
            live.review(writes.pop())
        return write(catalog, proposals)

    monkeypatch.setattr(RestCatalog, "write", write_second)
    report = live.ingest("--full", more="enrich: [{add_tags: [mlcat-live]}]\n")
    assert report["conflicts"] >= 1
    assert report["unverified"] == 0
    assert live.custom(urn)["reviewed"] == "yes"
    assert live.read(urn, "globalTags")["tags"] == [{"tag": "urn:li:tag:mlcat-live"}]


def test_a_person_who_never_stops_editing(live: LiveWorld) -> None:
    live.ingest()
    urn, ended = live.run("b"), threading.Event()

    def edit() -> None:
        while not ended.wait(0.05):
            live.review(urn)

    editor = threading.Thread(target=edit)
    editor.start()
    try:
        report = live.ingest("--full", more="enrich: [{add_tags: [mlcat-live]}]\n")
    finally:
        ended.set()
        editor.join()
    assert report["rejected"] == 0
    assert live.custom(urn)["reviewed"] == "yes"
    assert live.read(urn, "globalTags")["tags"] == [{"tag": "urn:li:tag:mlcat-live"}]


def test_retract_to_zero(live: LiveWorld) -> None:
    live.ingest()
    reviewed = live.run("b")
    live.review(reviewed)
    assert live.retract() == 0
    assert live.custom(reviewed) == {"reviewed": "yes"}
    # The group of a model that somebody else wrote to is still theirs to look at.
    assert {*live.urns} - {reviewed, live.groups[0]} <= live.removed()
    assert reviewed not in live.removed()


def test_retract_after_another_tool_wiped_what_we_remember(live: LiveWorld) -> None:
    from datahub.metadata.schema_classes import MLModelPropertiesClass

    live.ingest()
    wiped = live.run("b")
    properties = live.graph.get_aspect(wiped, MLModelPropertiesClass)
    kept = properties.customProperties.items()
    properties.customProperties = {
        key: value for key, value in kept if not key.startswith("mlcat.")
    }
    live.emit(wiped, properties)
    assert live.retract() == 0
    assert live.removed() == {*live.urns}


@needs_limited
def test_retract_with_a_token_that_may_not_delete(
    live: LiveWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    live.ingest()
    # Each of our entities has an aspect that goes, so that nothing is retracted.
    assert call(["retract", live.recipe(token=LIMITED), "--yes", "-q"]) == 1
    assert "lacks Delete" in capsys.readouterr().err
    assert live.removed() == set()
    assert live.retract() == 0
    assert live.removed() == {*live.urns}


@needs_limited
def test_entities_that_the_token_may_not_read(live: LiveWorld) -> None:
    report = live.ingest(token=LIMITED, expected=4)
    assert report["entities"]["mlModel"]["created"] == 6
    assert report["rejected"] == 3
    examples = report["rejected_examples"]
    # All of them lack the same privilege.
    assert [one["reference"] in live.groups for one in examples] == [True]
    assert examples[0]["reason"].endswith("lacks View Entity Page (and 2 others)")
    assert all("lacks View Entity Page" in one["reason"] for one in examples)
    assert all(live.read(urn, "mlModelProperties") for urn in live.models)
