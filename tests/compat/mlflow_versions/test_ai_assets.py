"""MCP servers, tools, skills and prompts of a real MLflow 3.18, through the whole command."""

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.registry import ASPECTS, ENTITY_TYPES, KEY_ASPECTS
from mlcat_ingest.sources.base import Finished, Page, ReadRequest, Runs
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.source import MlflowSource, open_reader
from mlcat_ingest.sources.mlflow.values.assets import AGENT, KINDS
from mlcat_ingest.sources.mlflow.values.joined import JoinedAsset, JoinedRecord
from support.ai_store import AGENTS, PROMPTS, SECRET, SERVERS, SKILLS, TOOLS, AiStore, seed
from support.catalog_server import RunningCatalog, running_catalog
from support.catalog_store import put
from support.merging import written
from support.mlflow_readings import entities_of, opened_reader
from support.mlflow_server import MlflowServer, running
from support.sdk_schema import assert_valid_for_sdk
from support.venvs import OURS, venv_for

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

ALL: list[str] = list(KINDS)
SERVER, SKILL, PROMPT = (
    "urn:li:service:mlflow:com.example/server-1",
    "urn:li:agentSkill:mlflow:skill-1",
    "urn:li:document:mlflow:prompt-2",
)
TOOL = "urn:li:api:mlflow:com.example/server-1/tool_4"
COUNTS = {
    "service": SERVERS,
    "api": TOOLS,
    "agentSkill": SKILLS,
    "document": PROMPTS,
    "aiAgent": AGENTS,
}


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store that has all that the constants of `ai_store` count."""
    with running(venv_for("mlflow-3.18"), tmp_path_factory.mktemp("seeded")) as server:
        seed(server.url)
        return server.store_dir


@pytest.fixture
def server(seeded: Path, tmp_path: Path) -> Iterator[MlflowServer]:
    folder = tmp_path / "mlflow"
    folder.mkdir()
    shutil.copy(seeded / "mlflow.db", folder / "mlflow.db")
    with running(venv_for("mlflow-3.18"), folder) as server:
        yield server


@pytest.fixture
def store(server: MlflowServer) -> AiStore:
    return AiStore(server.url)


def read(uri: str, include: list[str]) -> tuple[list[Any], list[Entity]]:
    with opened_reader(open_reader(MlflowConfig(tracking_uri=uri))) as reader:
        assets = [reader.assets(kind) for kind in KINDS.values() if kind != AGENT]
        return assets, entities_of(reader, include=include)


def test_rest_and_sql_give_the_same_and_datahub_takes_it(
    server: MlflowServer, store: AiStore
) -> None:
    by_rest, by_sql = (read(uri, ALL) for uri in (server.url, f"sqlite:///{server.db_path}"))
    assert [sorted(of, key=lambda one: one.name) for of in by_rest[0]] == [
        sorted(of, key=lambda one: one.name) for of in by_sql[0]
    ]
    entities = {one.urn: one for one in by_rest[1]}
    assert entities == {one.urn: one for one in by_sql[1]}
    counts = Counter(one.entity_type for one in entities.values())
    assert {kind: counts[kind] for kind in COUNTS} == COUNTS
    for one in entities.values():
        for proposal in written(one):
            assert_valid_for_sdk(proposal)
    latest = {one["name"]: one["latest_version"] for one in store.mcp("GET", "")["mcp_servers"]}
    assert latest == {one.name: one.newest.version for one in by_rest[0][0]}
    assert SECRET not in str(by_rest[1])
    for urn, main in ((SERVER, "serviceProperties"), (PROMPT, "documentInfo")):
        assert entities[urn].aspects[main]["customProperties"]["version.stage"] == "new"
    tags = {one["tag"] for one in entities[SKILL].aspects["globalTags"]["tags"]}
    assert tags == {"urn:li:tag:team:search", "urn:li:tag:version.stage:new"}


def test_nothing_is_read_that_is_not_included(server: MlflowServer) -> None:
    assert not COUNTS.keys() & {one.entity_type for one in read(server.url, [])[1]}


class World:
    """A catalog, and a recipe from the server to it."""

    def __init__(self, folder: Path, server: MlflowServer, catalog: RunningCatalog) -> None:
        self.folder = folder
        self.catalog = catalog
        self.uri = server.url
        self.include(ALL)

    def include(self, names: list[str]) -> None:
        self.recipe = self.folder / "recipe.yml"
        self.recipe.write_text(
            f"source: {{type: mlflow, config: {{tracking_uri: '{self.uri}', include: {names}}}}}\n"
            f"sink: {{type: rest, config: {{server: '{self.catalog.url}'}}}}\n"
            f"state: {{url: 'sqlite:///{self.folder}/state.db'}}\n"
            "report_to_catalog: false\nlimits: {max_removed_ratio: 1}\n"
        )

    def run(self, *options: str, status: int = 0) -> dict[str, Any]:
        """Return what a run wrote and removed, by entity type."""
        report = self.folder / "report.json"
        assert call([str(self.recipe), "--report", str(report), "-q", *options]) == status
        entities = json.loads(report.read_text())["entities"]
        for counts in entities.values():
            counts["written"] = counts["created"] + counts["updated"]
        return {
            k: counts for k, counts in entities.items() if counts["written"] + counts["removed"]
        }

    def stored(self, urn: str) -> dict[str, Any]:
        kind = urn.split(":")[2]
        names = [name for name, spec in ASPECTS.items() if kind in spec.entity_types]
        found = self.catalog.store.get_many([urn], names).get(urn, {})
        return {name: one.value for name, one in found.items()}

    def is_live(self, urn: str) -> bool:
        return not self.stored(urn).get("status", {}).get("removed", False)


@pytest.fixture
def world(tmp_path: Path, server: MlflowServer) -> Iterator[World]:
    with running_catalog(tmp_path / "catalog.db") as catalog:
        yield World(tmp_path, server, catalog)


def edited(world: World, urn: str) -> dict[str, Any]:
    """Add a tag, and to a type that has them a custom property, as a person does."""
    stored, main = world.stored(urn), ENTITY_TYPES[urn.split(":")[2]].properties or ""
    tags = [*stored.get("globalTags", {}).get("tags", ()), {"tag": "urn:li:tag:theirs"}]
    changes: dict[str, Any] = {"globalTags": {"tags": tags}}
    if "customProperties" in stored[main]:
        custom = {**stored[main]["customProperties"], "theirs": "yes"}
        changes[main] = {**stored[main], "customProperties": custom}
    put(world.catalog.store, urn, **changes)
    return world.stored(urn)


def test_the_life_of_each_kind(world: World, store: AiStore) -> None:
    first = world.run()
    assert {kind: first[kind]["written"] for kind in COUNTS} == COUNTS
    assert world.run() == {}
    assert world.run("--full") == {}
    run = world.stored(PROMPT)["documentInfo"]["relatedAssets"]
    assert len(run) == 1

    after = {urn: edited(world, urn) for urn in (SERVER, TOOL, SKILL, PROMPT)}
    store.mcp("PATCH", "/com.example/server-1", {"description": "Another"})
    store.skill("PATCH", "/skill-1", {"description": "Another"})
    store.add_prompt_version("prompt-2", "Newer text")
    store.add_run(["prompt-2"])
    changed = world.run()
    assert all(changed[kind]["written"] == 1 for kind in ("service", "agentSkill", "document"))
    assert world.stored(SERVER)["serviceProperties"]["description"] == "Another"
    assert world.stored(SKILL)["agentSkillInfo"]["description"] == "Another"
    document = world.stored(PROMPT)["documentInfo"]
    assert document["contents"]["text"] == "Newer text"
    assert document["customProperties"]["mlflow.prompt.3"] == "Answer {{question}}, version 2"
    assert len(document["relatedAssets"]) == 2
    for urn, stored in after.items():
        tags = world.stored(urn)["globalTags"]["tags"]
        assert tags == stored["globalTags"]["tags"], urn
    assert world.run("--full") == {}
    assert call(["verify", str(world.recipe), "-q"]) == 0

    store.add_server_version("com.example/server-1", "1.11.0", ["tool_1", "new"])
    store.delete_server("com.example/server-2")
    store.delete_skill("skill-1")
    store.registry("registered-models/delete", "DELETE", name="prompt-2")
    gone = world.run("--full")
    assert all(gone[kind]["removed"] == 1 for kind in ("service", "agentSkill", "document"))
    assert not any(map(world.is_live, (TOOL, SKILL, PROMPT)))
    assert world.is_live("urn:li:api:mlflow:com.example/server-1/tool_1")
    assert world.run("--full") == {}

    store.add_skill("skill-1")
    store.add_prompt("prompt-2", "Again")
    store.add_server_version("com.example/server-2", "1.0.0", ["tool_2"])
    store.mcp("PATCH", "/com.example/server-1/versions/1.11.0", {"status": "draft"})
    world.run()
    assert all(map(world.is_live, (TOOL, SKILL, PROMPT)))
    assert {"tag": "urn:li:tag:theirs"} in world.stored(SKILL)["globalTags"]["tags"]
    # Which runs use a prompt that came back, only a pass over all runs finds out.
    assert world.run("--full").keys() == {"document"}
    assert len(world.stored(PROMPT)["documentInfo"]["relatedAssets"]) == 2
    assert world.run("--full") == {}

    world.include(["prompts"])
    world.run("--full")
    assert world.is_live(PROMPT)
    assert not any(map(world.is_live, (SERVER, TOOL, SKILL)))


def agents(world: World) -> dict[str, str]:
    """Return the URNs of agents by their names."""
    urns = world.catalog.store.list_urns("aiAgent").urns
    return {world.stored(urn)["aiAgentInfo"]["name"]: urn for urn in urns}


def test_the_life_of_an_agent(world: World, store: AiStore, server: MlflowServer) -> None:
    world.run()
    urns = agents(world)
    helper_id = urns["helper"].rpartition(":")[2]
    version = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,a model_1,PROD)"
    helper_model = f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{helper_id},PROD)"
    assert world.stored(urns["helper"])["aiAgentDependencies"]["models"] == [version]
    uses = world.stored(urns["planner"])["aiAgentDependencies"]
    assert set(uses["models"]) == {version, helper_model}
    assert uses["skills"] == ["urn:li:agentSkill:mlflow:@acme/skill-0"]
    tools = {f"urn:li:api:mlflow:com.example/server-1/tool_{at}" for at in range(1, TOOLS, 3)}
    assert set(uses["tools"]) == {*tools, "urn:li:api:mlflow:com.example/server-2/tool_2"}
    report = json.loads((world.folder / "report.json").read_text())
    assert report["notes"]["agent_uses_unknown"] == 1

    edited(world, urns["planner"])
    theirs = {**uses, "skills": [*uses["skills"], SKILL]}
    put(world.catalog.store, urns["planner"], aiAgentDependencies=theirs)
    store.registry("model-versions/create", name="a model", source="s3://bucket/model")
    store.registry("registered-models/alias", name="a model", alias="best", version="2")
    store.tag_agent(urns["planner"].rpartition(":")[2], "mcp-servers:/com.example/server-2#tool_2")
    assert world.run()["aiAgent"]["written"] == 1
    uses = world.stored(urns["planner"])["aiAgentDependencies"]
    assert set(uses["models"]) == {version.replace("_1,", "_2,"), helper_model}
    assert uses["skills"] == [SKILL]
    assert uses["tools"] == ["urn:li:api:mlflow:com.example/server-2/tool_2"]
    tags = world.stored(urns["planner"])["globalTags"]["tags"]
    assert tags == [{"tag": "urn:li:tag:theirs"}]
    assert world.run("--full") == {}

    store.delete_agent(helper_id)
    assert world.run("--full")["aiAgent"]["removed"] == 1
    assert not world.is_live(urns["helper"])
    assert world.stored(urns["planner"])["aiAgentDependencies"]["models"] == [
        version.replace("_1,", "_2,")
    ]
    execute(server, "UPDATE logged_models SET lifecycle_stage = 'active'")
    world.run("--full")
    assert world.is_live(urns["helper"])
    assert set(agents(world)) == {"helper", "planner"}
    world.include(["prompts"])
    world.run("--full")
    assert not any(map(world.is_live, urns.values()))


def execute(server: MlflowServer, *statements: str) -> None:
    with closing(sqlite3.connect(server.db_path)) as database, database:
        for statement in statements:
            database.execute(statement)


@pytest.mark.parametrize("reader", ["rest", "sql"])
def test_what_mlflow_cannot_send_is_named_and_stays(
    world: World, server: MlflowServer, store: AiStore, reader: str
) -> None:
    if reader == "sql":
        world.uri = f"sqlite:///{server.db_path}"
        world.include(ALL)
    world.run()
    tools = world.stored(agents(world)["planner"])["aiAgentDependencies"]["tools"]
    broken = (
        "UPDATE mcp_server_versions SET server_json = '{broken' WHERE name = 'com.example/server-1'"
    )
    execute(server, broken)
    store.skill("PATCH", "/skill-2", {"description": "Another"})
    changed = world.run("--full", status=4)
    # What an agent uses of a server is that of the last pass that could read it.
    assert {kind: counts["removed"] for kind, counts in changed.items()} == {"agentSkill": 0}
    assert world.stored(agents(world)["planner"])["aiAgentDependencies"]["tools"] == tools
    assert all(map(world.is_live, (SERVER, TOOL)))


def test_retract_leaves_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.run()
    planner = agents(world)["planner"]
    edited(world, planner)
    assert call(["explain", planner, "--recipe", str(world.recipe), "--json"]) == 0
    explained = json.loads(capsys.readouterr().out)["entries"]
    assert [one["entry"] for one in explained if one["written_by"] == "person or tool"] == [
        "urn:li:tag:theirs"
    ]
    put(world.catalog.store, planner, globalTags={"tags": []})
    assert call(["retract", str(world.recipe), "--yes", "-q"]) == 0
    for urn in (SERVER, TOOL, SKILL, PROMPT, planner):
        left = {name for name, value in world.stored(urn).items() if any(value.values())}
        assert left <= {"status", "dataPlatformInstance", *KEY_ASPECTS, "browsePathsV2"}, urn
        assert not world.is_live(urn)


def test_an_event_about_a_prompt_reads_that_prompt(server: MlflowServer, store: AiStore) -> None:
    store.add_prompt("of an event", "Text")
    for uri in (server.url, f"sqlite:///{server.db_path}"):
        config = MlflowConfig(tracking_uri=uri, include=("prompts", "skills"))
        with closing(MlflowSource(config)) as source:
            request = ReadRequest(Runs([], models=["of an event", "a model"]))
            read = [record for page in source.read(request) for record in records_in(page)]
        assert [one.asset.name for one in read if isinstance(one, JoinedAsset)] == ["of an event"]


def records_in(page: Page[JoinedRecord] | Finished) -> list[JoinedRecord]:
    return list(page.records) if isinstance(page, Page) else []


def test_an_older_mlflow_gives_what_it_has(tmp_path: Path) -> None:
    with running(OURS, tmp_path) as server:
        AiStore(server.url).add_prompt("greet", "Hello")
        for uri in (server.url, f"sqlite:///{server.db_path}"):
            servers, skills, prompts = read(uri, [])[0]
            assert (servers, skills, [one.name for one in prompts]) == ([], None, ["greet"])
            source = MlflowSource(MlflowConfig(tracking_uri=uri, include=("skills",)))
            ends = [one for one in source.read(ReadRequest()) if isinstance(one, Finished)]
            notes = [note.kind for end in ends for note in end.notes]
            source.close()
            assert notes == ["assets_not_listed"]
    by_client = MlflowConfig(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db", reader="client")
    with opened_reader(open_reader(by_client)) as reader:
        assert [one.versions[0].content for one in reader.assets("prompt") or ()] == ["Hello"]
        with pytest.raises(RecipeError, match="MlflowClient lists no skills"):
            reader.assets("skill")
