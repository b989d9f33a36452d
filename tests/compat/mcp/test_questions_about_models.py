"""DataHub's MCP server answers from the embedded catalog: models, groups, features, lineage."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from mlcat_ingest import Pipeline, Recipe
from support import small_store
from support.catalog_process import catalog_process
from support.fakes import model_urn
from support.mcp_client import McpClient, mcp_client
from support.mlflow_tables import insert
from support.venvs import venv_for

pytestmark = pytest.mark.timeout(600)

MODEL = model_urn("a")
OTHER = model_urn("b")
GROUP = small_store.GROUP
FEATURE = "urn:li:mlFeature:(rides.driver_stats,conv_rate)"
TABLE = "urn:li:mlFeatureTable:(urn:li:dataPlatform:custom,rides.driver_stats)"
DATASET = "urn:li:dataset:(urn:li:dataPlatform:s3,lake/drivers,PROD)"
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "mcp.md"

FEATURES = """
version: 1
platform: custom
namespace: rides
tables:
  - name: driver_stats
    description: How each driver did, hour by hour.
    sources: [{platform: s3, name: lake/drivers}]
    features:
      - {name: conv_rate, type: CONTINUOUS, description: Share of requests that became rides.}
      - {name: acc_rate, type: CONTINUOUS}
"""

RECIPE = """
name: prod
sources:
  - {{type: definitions, config: {{path: features.yml}}}}
  - {{type: mlflow, config: {{tracking_uri: 'sqlite:///mlflow.db'}}}}
enrich:
  - {{match: {{entity: mlModel, name: run a}}, add_tags: [pii], set_domain: growth}}
sink: {{type: rest, config: {{server: '{url}'}}}}
state: {{full_every: 0s}}
"""


@pytest.fixture(scope="module")
def mcp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpClient]:
    try:
        venv = venv_for("mcp-datahub-0.8")
    except RuntimeError as error:
        pytest.skip(f"no environment for DataHub's MCP server: {error}")
    folder = tmp_path_factory.mktemp("mcp")
    with catalog_process(folder / "catalog.db") as catalog:
        ingest(folder, catalog.url)
        with mcp_client(venv, catalog.url, folder) as client:
            yield client


def ingest(folder: Path, url: str) -> None:
    store = small_store.make(folder)
    tags = {"mlcat.features": "rides.driver_stats:conv_rate", "team": "growth",
            "mlflow.note.content": "The first churn model."}  # fmt: skip
    rows = [{"run_uuid": "a", "key": key, "value": value} for key, value in tags.items()]
    insert(store.mlflow, "tags", rows)
    metric = {"key": "auc", "value": 0.9, "timestamp": 0, "step": 0, "is_nan": 0, "run_uuid": "a"}
    insert(store.mlflow, "latest_metrics", [metric])
    note = {"experiment_id": 1, "key": "mlflow.note.content", "value": "All churn models."}
    insert(store.mlflow, "experiment_tags", [note])
    (folder / "features.yml").write_text(FEATURES)
    (folder / "recipe.yml").write_text(RECIPE.format(url=url))
    report = Pipeline(Recipe.load(folder / "recipe.yml")).run()
    assert report.entities["mlModel"].created == 2


def found(answer: dict[str, Any]) -> set[str]:
    return {one["entity"]["urn"] for one in answer.get("searchResults", ())}


def test_the_tools_are_offered(mcp: McpClient) -> None:
    offered = {tool["name"] for tool in mcp.request("tools/list", {})["tools"]}
    assert offered >= {
        *("search", "get_entities", "get_lineage", "get_lineage_paths_between"),
        *("get_dataset_queries", "list_schema_fields"),
    }


@pytest.mark.parametrize(
    ("arguments", "urns"),
    [
        ({"query": "churn"}, {GROUP, MODEL}),
        ({"query": "/q conv_rate", "filter": "entity_type = mlFeature"}, {FEATURE}),
        ({"query": "/q conv_rate OR drivers*", "filter": "entity_type = mlFeature"}, {FEATURE}),
        ({"query": "/q churn+first"}, {MODEL}),
        ({"query": "/q metrics.auc:>0.5"}, {MODEL}),
        ({"query": "/q metrics.auc>0.5"}, {MODEL}),
        ({"query": "/q tag:pii"}, {MODEL}),
        ({"query": "*", "filter": "entity_type = mlModel"}, {MODEL, model_urn("b")}),
        ({"query": "/q (share OR nothing) AND requests"}, {FEATURE}),
    ],
)
def test_search(mcp: McpClient, arguments: dict[str, str], urns: set[str]) -> None:
    answer = mcp.call("search", **arguments)
    assert found(answer) == urns
    assert answer["total"] == len(urns)


def test_an_assistant_reads_which_field_was_meant(mcp: McpClient) -> None:
    asked = {"name": "search", "arguments": {"query": "/q experiment:churn"}}
    answer = mcp.request("tools/call", asked)
    assert answer["isError"]
    assert "no field `experiment`; did you mean `group`?" in answer["content"][0]["text"]


def test_get_entities(mcp: McpClient) -> None:
    model, group, feature, table = mcp.call("get_entities", urns=[MODEL, GROUP, FEATURE, TABLE])
    custom = {one["key"]: one["value"] for one in model["properties"]["customProperties"]}
    assert (model["name"], model["description"]) == ("a", "The first churn model.")
    assert (custom["team"], custom["mlflow.status"]) == ("growth", "FINISHED")
    assert model["tags"]["tags"][0]["tag"]["urn"] == "urn:li:tag:pii"
    assert model["ownership"]["owners"][0]["owner"]["urn"] == "urn:li:corpuser:jane"
    assert (group["name"], group["description"]) == ("churn", "All churn models.")
    assert feature["name"] == "conv_rate"
    assert feature["description"] == "Share of requests that became rides."
    members = [one["urn"] for one in table["featureTableProperties"]["mlFeatures"]]
    assert members == [FEATURE, FEATURE.replace("conv_rate", "acc_rate")]


@pytest.mark.parametrize(
    ("urn", "upstream", "urns"),
    [
        (MODEL, True, {FEATURE}),
        (MODEL, False, {GROUP}),
        (GROUP, True, {MODEL, model_urn("b"), FEATURE}),
        (FEATURE, False, {MODEL, GROUP}),
    ],
)
def test_get_lineage(mcp: McpClient, urn: str, upstream: bool, urns: set[str]) -> None:  # noqa: FBT001
    answer = mcp.call("get_lineage", urn=urn, upstream=upstream, max_hops=3)
    assert found(answer["upstreams" if upstream else "downstreams"]) == urns


def test_lineage_with_words(mcp: McpClient) -> None:
    answer = mcp.call("get_lineage", urn=GROUP, query="/q conv_rate OR nothing", max_hops=3)
    assert found(answer["upstreams"]) == {FEATURE, MODEL}


def test_the_path_from_a_feature_to_a_group(mcp: McpClient) -> None:
    answer = mcp.call("get_lineage_paths_between", source_urn=FEATURE, target_urn=GROUP)
    (path,) = answer["paths"]
    assert [one["urn"] for one in path["path"]] == [FEATURE, MODEL, GROUP]


def test_the_answers_on_the_page_are_real(mcp: McpClient) -> None:
    _, *answers = map(json.loads, re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL))
    real = (
        mcp.call("search", query="/q churn"),
        mcp.call("get_entities", urns=MODEL),
        mcp.call("get_lineage", urn=FEATURE, upstream=False, max_hops=2),
    )
    for answer, whole in zip(answers, real, strict=True):
        assert is_part(answer, whole)


def is_part(shown: Any, whole: Any) -> bool:
    """Return whether `whole` has all that is shown of it, entries of lists in any place."""
    if isinstance(shown, dict):
        return all(key in whole and is_part(value, whole[key]) for key, value in shown.items())
    if isinstance(shown, list):
        return all(any(is_part(one, other) for other in whole) for one in shown)
    return bool(shown == whole)


def test_what_is_not_kept_is_empty(mcp: McpClient) -> None:
    assert mcp.call("get_dataset_queries", urn=DATASET)["total"] == 0
    assert mcp.call("list_schema_fields", urn=MODEL)["fields"] == []
    assert mcp.call("get_me")["data"]["corpUser"]["username"] == "unknown"


def test_prompts_are_documents(mcp: McpClient) -> None:
    stamp = {"time": 1_780_000_000_000, "actor": "urn:li:corpuser:jane"}
    prompt, info = "urn:li:document:mlflow.welcome", {
        "title": "Welcome",
        "contents": {"text": "Greet the rider {{name}}."},
        "status": {"state": "PUBLISHED"},
        "created": stamp,
        "lastModified": stamp,
        "relatedAssets": [{"asset": MODEL}],
    }  # fmt: skip
    write(mcp.catalog_url, prompt, "documentInfo", info)
    write(mcp.catalog_url, prompt, "subTypes", {"typeNames": ["Prompt"]})
    everywhere = {"query": "/q rider", "filter": "entity_type = document"}
    assert found(mcp.call("search", **everywhere)) == {prompt}
    for asked in ({"query": "/q rider"}, {"filter": "subtype = Prompt"}):
        assert found(mcp.call("search_documents", **asked)) == {prompt}
    assert mcp.call("search_documents", query="nothing")["total"] == 0
    (read,) = mcp.call("grep_documents", urns=[prompt], pattern="rider .*")["results"]
    assert (read["title"], read["total_matches"]) == ("Welcome", 1)
    (related,) = mcp.call("get_entities", urns=[MODEL])[0]["relatedDocuments"]["documents"]
    assert (related["urn"], related["info"]) == (prompt, {"title": "Welcome"})
    server = "urn:li:service:mlflow.weather"
    write(mcp.catalog_url, server, "serviceProperties", {"displayName": "Weather"})
    assert server not in found(mcp.call("search", query="weather"))
    assert "error" in mcp.call("get_entities", urns=[server])[0]


def test_the_history_of_an_aspect(mcp: McpClient) -> None:
    answer = mcp.call("get_aspect_history", urns=[MODEL], aspect_names=["ownership"])
    assert answer["results"][0]["current"]["value"]["owners"]


def test_what_an_assistant_changes_stays_when_the_recipe_runs_again(mcp: McpClient) -> None:
    catalog, folder = mcp.catalog_url, mcp.log.parent
    term, domain = "urn:li:glossaryTerm:t", "urn:li:domain:risk"
    joe, prop = "urn:li:corpuser:joe", "urn:li:structuredProperty:p"
    definition = {"qualifiedName": "p", "valueType": "urn:li:dataType:datahub.string",
                  "entityTypes": ["urn:li:entityType:datahub.mlModel"]}  # fmt: skip
    for urn, name, value in (
        ("urn:li:tag:gold", "tagProperties", {"name": "gold"}),
        (term, "glossaryTermInfo", {"definition": "t", "termSource": "INTERNAL"}),
        (domain, "domainProperties", {"name": "Risk"}),
        (joe, "corpUserInfo", {"active": True}),
        (prop, "propertyDefinition", definition),
    ):
        write(catalog, urn, name, value)
    resources = {"entity_urns": [OTHER]}
    steward = {"owner_urns": [joe], "ownership_type": "DATA_STEWARD"}
    for tool, arguments in (
        ("add_tags", {"tag_urns": ["urn:li:tag:gold"]}),
        ("add_terms", {"term_urns": [term]}),
        ("add_owners", steward),
        ("set_domains", {"domain_urn": domain}),
        ("add_structured_properties", {"property_values": {prop: ["x"]}}),
    ):
        assert mcp.call(tool, **arguments, **resources)["success"], tool
    text = {"entity_urn": OTHER, "operation": "replace", "description": "By an assistant."}
    assert mcp.call("update_description", **text)["success"]
    insert(folder / "mlflow.db", "tags", [{"run_uuid": "b", "key": "team", "value": "risk"}])
    report = Pipeline(Recipe.load(folder / "recipe.yml")).run()
    assert report.entities["mlModel"].updated == 1
    after = aspects(catalog)
    assert after["editableMlModelProperties"] == {"description": "By an assistant."}
    assert after["globalTags"]["tags"] == [{"tag": "urn:li:tag:gold"}]
    assert after["glossaryTerms"]["terms"] == [{"urn": term}]
    assert after["ownership"]["owners"][-1]["owner"] == joe
    assert after["domains"]["domains"] == [domain]
    assert after["structuredProperties"]["properties"][0]["values"] == [{"string": "x"}]
    for tool, arguments in (
        ("remove_tags", {"tag_urns": ["urn:li:tag:gold"]}),
        ("remove_terms", {"term_urns": [term]}),
        ("remove_owners", steward),
        ("remove_domains", {}),
        ("remove_structured_properties", {"property_urns": [prop]}),
    ):
        assert mcp.call(tool, **arguments, **resources)["success"], tool
    after = aspects(catalog)
    assert after["globalTags"]["tags"] == after["glossaryTerms"]["terms"] == []
    assert joe not in {one["owner"] for one in after["ownership"]["owners"]}
    assert after["domains"]["domains"] == after["structuredProperties"]["properties"] == []


def write(catalog: str, urn: str, name: str, value: dict[str, Any]) -> None:
    entity_type = urn.split(":")[2]
    body = [{"urn": urn, name: {"value": value}}]
    answer = requests.post(f"{catalog}/openapi/v3/entity/{entity_type}", json=body, timeout=30)
    answer.raise_for_status()


def aspects(catalog: str) -> dict[str, Any]:
    address = f"{catalog}/openapi/v3/entity/mlModel/{quote(OTHER, safe='')}"
    answer = requests.get(address, timeout=30)
    return {name: one["value"] for name, one in answer.json().items() if name != "urn"}
