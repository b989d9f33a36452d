"""Which models use a prompt, and which assets are gone."""

import json
from dataclasses import replace
from typing import Any

import pytest

from mlcat_ingest.metadata.reserved import USES_TAG
from mlcat_ingest.sources.base import Unlisted
from mlcat_ingest.sources.mlflow.read.reader import MlflowObject
from mlcat_ingest.sources.mlflow.select.assets import AssetUsers, join_agents, missing_assets
from mlcat_ingest.sources.mlflow.values.assets import (
    AGENT,
    LINKED_PROMPTS_TAG,
    MCP_SERVER,
    PROMPT,
    SKILL,
    Asset,
)
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedLoggedModel,
    JoinedRecord,
    JoinedRun,
    JoinedVersion,
)
from mlcat_ingest.sources.mlflow.values.records import Experiment, LoggedModel, ModelVersion, Run
from support.fake_mlflow import FakeReader, FakeStore
from support.mlflow_records import a_scope

SCOPE = a_scope(instance="eu", workspace="risk")
TAGS = {LINKED_PROMPTS_TAG: json.dumps([{"name": "p"}])}
MODEL = LoggedModel("m-1", "1", "m", "READY", tags=TAGS)
RECORDS: list[Any] = [
    JoinedRun(SCOPE, Run("r1", "1", tags=TAGS), None),
    JoinedRun(SCOPE, Run("r2", "1"), None, models={"m-1": MODEL}),
    JoinedRun(SCOPE, Run("r3", "1", tags=TAGS, lifecycle_stage="deleted"), None),
    JoinedVersion(SCOPE, ModelVersion("v", "1", tags=TAGS)),
    JoinedVersion(SCOPE, ModelVersion("w", "1"), model=MODEL),
    JoinedLoggedModel(SCOPE, replace(MODEL, model_id="m-2"), Experiment("1", "e")),
]
NAMING = SCOPE.naming
USERS = {
    *(NAMING.model(one).urn for one in ("r1", "r2", "m-2")),
    *(NAMING.version(one, "1").urn for one in ("v", "w")),
}


def users(earlier: str, *records: JoinedRecord) -> set[str]:
    found = AssetUsers({"p": earlier})
    found.add(records)
    return set(found.join(SCOPE, Asset(PROMPT, "p")).related)


def test_a_prompt_has_the_models_that_name_it() -> None:
    assert users("", *RECORDS) == USERS
    assert AssetUsers({"p": "urn"}).join(SCOPE, Asset(SKILL, "p")).related == ()


def test_models_that_a_pass_does_not_read_stay_and_others_are_known_anew() -> None:
    before, other = NAMING.model("r0").urn, NAMING.model("r1").urn
    assert users(f"{before}\n{other}", JoinedRun(SCOPE, Run("r1", "1"), None)) == {before}
    assert users(before, RECORDS[0]) == {before, other}


LISTED: dict[str, dict[str, list[str]]] = {
    MCP_SERVER: {"a/b": ["t", "x/y"], "a/none": []},
    SKILL: {"@o/s": [], "s.2": []},
    PROMPT: {"p": []},
    AGENT: {"m-1": []},
}


@pytest.mark.parametrize(
    ("kind", "names", "fate"),
    [
        (MCP_SERVER, ["a/b"], "there"),
        (MCP_SERVER, ["a/b", "t"], "there"),
        (MCP_SERVER, ["a/b", "x/y"], "there"),
        (MCP_SERVER, ["a/b", "gone"], "gone"),
        (MCP_SERVER, ["a/none", "t"], "gone"),
        (MCP_SERVER, ["a/c"], MCP_SERVER),
        (MCP_SERVER, ["a/c", "t"], MCP_SERVER),
        (SKILL, ["@o/s"], "there"),
        (SKILL, ["s"], SKILL),
        (AGENT, ["m-1"], "there"),
        (AGENT, ["m-2"], "logged_model"),
        (PROMPT, ["p, (odd) %"], "registered"),
        (PROMPT, ["p"], "there"),
        (PROMPT, ["p" * 600], "there"),
    ],
)
def test_what_is_missing_is_proved(kind: str, names: list[str], fate: str) -> None:
    entity = Unlisted(SCOPE.asset(kind, *names).urn, {})
    asked: list[str] = []

    class Reader(FakeReader):
        def is_gone(self, target: MlflowObject) -> bool:
            asked.append(target.kind)
            return True

    reader = Reader({"risk": FakeStore([], [], [], [], [])})
    found = list(missing_assets(reader, SCOPE, [entity], LISTED, LISTED))
    assert (not found) == (fate == "there")
    assert all(one.is_gone() and not one.switched_off for one in found)
    assert asked == ([] if fate in {"there", "gone"} else [fate])
    assert list(missing_assets(reader, SCOPE, [entity], LISTED, {})) == []
    off = list(missing_assets(reader, SCOPE, [entity], (), {}))
    assert all(one.switched_off and one.is_gone() for one in off)
    assert bool(off) == (len(names[0]) < 600)


def test_a_server_that_is_gone_is_asked_for_once() -> None:
    reader = FakeReader({"risk": STORE}, "risk")
    asked: list[object] = []
    reader.is_gone = lambda target: not asked.append(target)  # type: ignore[method-assign, func-returns-value]
    unlisted = [
        Unlisted(SCOPE.asset(MCP_SERVER, "a/gone", f"t{at}").urn, {}) for at in range(10_000)
    ]
    found = list(missing_assets(reader, SCOPE, unlisted, LISTED, LISTED))
    assert all(one.is_gone() for one in found)
    assert (len(found), len(asked)) == (10_000, 1)


def test_an_entity_of_another_place_proves_nothing() -> None:
    urns = [a_scope().asset(MCP_SERVER, "a/c").urn, "urn:li:api:any", "urn:li:document:a,b"]
    reader = FakeReader({"risk": FakeStore([], [], [], [], [])})
    assert (
        list(missing_assets(reader, SCOPE, [Unlisted(u, {}) for u in urns], LISTED, LISTED)) == []
    )


DIGITS = "1" * 5_000
"""More than Python makes a number of."""

MADE, EXTERNAL, GONE = ("m-" + one * 32 for one in "abc")
MODELS = [
    LoggedModel(MADE, "1", "made", "READY", source_run_id="r1"),
    LoggedModel(EXTERNAL, "1", "external", "READY", model_type="Agent"),
]
VERSIONS = [ModelVersion("llm", "3"), ModelVersion("llm", "7", aliases=("best",))]
STORE = FakeStore([Experiment("1", "e")], versions=VERSIONS)


def uses(reference: str, how: str = "params") -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what an agent uses, without fields that are empty, and what is unknown of it."""
    model = LoggedModel("m-1", "1", "a", "READY", model_type="agent")
    declared = {USES_TAG: reference}
    model = replace(model, params=declared) if how == "params" else replace(model, tags=declared)
    agent = JoinedLoggedModel(SCOPE, model, Experiment("1", "e"))
    reader = FakeReader({"risk": replace(STORE, models=MODELS)}, "risk")
    (joined,) = join_agents(reader, [agent], LISTED)
    return {field: urns for field, urns in joined.uses.items() if urns}, joined.unknown


@pytest.mark.parametrize(
    ("reference", "field", "names"),
    [
        ("models:/llm/3", "models", [NAMING.version("llm", "3").urn]),
        ("models:///llm/03", "models", [NAMING.version("llm", "3").urn]),
        ("models:/llm@best", "models", [NAMING.version("llm", "7").urn]),
        (f"models:/{MADE}", "models", [NAMING.model("r1").urn]),
        (f"models:/{EXTERNAL}", "models", [NAMING.model(EXTERNAL).urn]),
        ("skills:/@o/s/3", "skills", [SCOPE.asset(SKILL, "@o/s").urn]),
        ("skills:/s.2@stable", "skills", [SCOPE.asset(SKILL, "s.2").urn]),
        (
            "mcp-servers:/a/b",
            "tools",
            [SCOPE.asset(MCP_SERVER, "a/b", t).urn for t in ("t", "x/y")],
        ),
        ("mcp-servers:/a/b#x/y", "tools", [SCOPE.asset(MCP_SERVER, "a/b", "x/y").urn]),
    ],
)
def test_an_agent_uses_what_it_refers_to(reference: str, field: str, names: list[str]) -> None:
    for how in ("params", "tags"):
        assert uses(reference, how=how) == ({field: tuple(sorted(names))}, ())


@pytest.mark.parametrize(
    "reference",
    [
        *("models:/llm/Production", "models:/llm/latest", "models:/llm@other", "models:/none/1"),
        *("models:/llm/\u0663", "models:/llm/4", "models:/llm/0", f"models:/llm/{DIGITS}"),
        *(f"models:/{GONE}", "models:/llm", "skills:/none/1", "skills:/@o", "mcp-servers:/a/c"),
        *("mcp-servers:/a/b#none", "mcp-servers:/a/none", "gpt-x", "s3://bucket/x", "models:/"),
    ],
)
def test_what_is_not_there_or_may_mean_another_thing_is_unknown(reference: str) -> None:
    assert uses(reference) == ({}, (reference,))


def test_what_this_pass_did_not_list_stays() -> None:
    tags = {USES_TAG: "mcp-servers:/a/c, skills:/none"}
    model = LoggedModel("m-1", "1", "a", "READY", model_type="agent", tags=tags)
    agent = JoinedLoggedModel(SCOPE, model, Experiment("1", "e"))
    reader = FakeReader({"risk": STORE}, "risk")
    (joined,) = join_agents(reader, [agent], {SKILL: {}})
    assert joined.uses == {"models": (), "skills": ()}
    assert joined.unknown == ("mcp-servers:/a/c", "skills:/none")
    (joined,) = join_agents(reader, [agent], LISTED, {MCP_SERVER})
    assert joined.uses == {"models": (), "skills": ()}
    assert joined.unknown == ("skills:/none",)
    reader.calls.clear()
    assert (list(join_agents(reader, [], {})), reader.calls) == ([], [])


def test_versions_are_listed_only_for_agents_that_name_one() -> None:
    reader, listed = FakeReader({"risk": replace(STORE, models=MODELS)}, "risk"), []
    for uri in ("skills:/@o/s/3", f"models:/{MADE}", "models:/llm/3"):
        model = replace(MODELS[1], tags={USES_TAG: uri})
        assert list(
            join_agents(reader, [JoinedLoggedModel(SCOPE, model, Experiment("1", "e"))], {})
        )
        listed.append(("risk", "model_versions") in reader.calls)
    assert listed == [False, False, True]


def test_agents_are_external_models_of_that_type() -> None:
    found = AssetUsers({})
    found.add(JoinedLoggedModel(SCOPE, model, Experiment("1", "e")) for model in MODELS)
    assert [*found.agents] == [EXTERNAL]
