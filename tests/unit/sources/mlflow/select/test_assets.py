"""Which models use a prompt, and which assets are gone."""

import json
from dataclasses import replace
from typing import Any

import pytest

from mlcat_ingest.sources.base import Unlisted
from mlcat_ingest.sources.mlflow.select.assets import PromptUsers, missing_assets
from mlcat_ingest.sources.mlflow.values.assets import (
    LINKED_PROMPTS_TAG,
    MCP_SERVER,
    PROMPT,
    SKILL,
    Asset,
    AssetVersion,
    Tool,
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
    found = PromptUsers({"p": earlier})
    found.add(records)
    return set(found.join(SCOPE, Asset(PROMPT, "p")).related)


def test_a_prompt_has_the_models_that_name_it() -> None:
    assert users("", *RECORDS) == USERS
    assert PromptUsers({}).join(SCOPE, Asset(SKILL, "p")).related == ()


def test_models_that_a_pass_does_not_read_stay_and_others_are_known_anew() -> None:
    before, other = NAMING.model("r0").urn, NAMING.model("r1").urn
    assert users(f"{before}\n{other}", JoinedRun(SCOPE, Run("r1", "1"), None)) == {before}
    assert users(before, RECORDS[0]) == {before, other}


SERVER = Asset(MCP_SERVER, "a/b", versions=(AssetVersion("1", tools=(Tool("t"), Tool("x/y"))),))
LISTED = {
    MCP_SERVER: {"a/b": SERVER, "a/none": Asset(MCP_SERVER, "a/none")},
    SKILL: {"@o/s": Asset(SKILL, "@o/s")},
    PROMPT: {"p": Asset(PROMPT, "p")},
}


@pytest.mark.parametrize(
    ("kind", "names", "fate"),
    [
        (MCP_SERVER, ["a/b"], "there"),
        (MCP_SERVER, ["a/b", "t"], "there"),
        (MCP_SERVER, ["a/b", "x/y"], "there"),
        (MCP_SERVER, ["a/b", "gone"], "gone"),
        (MCP_SERVER, ["a/none", "t"], "gone"),
        (MCP_SERVER, ["a/c"], "asked"),
        (MCP_SERVER, ["a/c", "t"], "asked"),
        (SKILL, ["@o/s"], "there"),
        (SKILL, ["s"], "asked"),
        (PROMPT, ["p, (odd) %"], "asked"),
        (PROMPT, ["p"], "there"),
        (PROMPT, ["p" * 600], "there"),
    ],
)
def test_what_is_missing_is_proved(kind: str, names: list[str], fate: str) -> None:
    entity = Unlisted(SCOPE.asset(kind, *names).urn, {})
    asked: list[str] = []

    class Reader(FakeReader):
        def is_gone(self, target: object) -> bool:
            asked.append(str(target))
            return True

    reader = Reader({"risk": FakeStore([], [], [], [], [])})
    found = list(missing_assets(reader, SCOPE, [entity], LISTED, LISTED))
    assert (not found) == (fate == "there")
    assert all(one.is_gone() and not one.switched_off for one in found)
    assert bool(asked) == (fate == "asked")
    assert list(missing_assets(reader, SCOPE, [entity], LISTED, {})) == []
    off = list(missing_assets(reader, SCOPE, [entity], (), {}))
    assert all(one.switched_off and one.is_gone() for one in off)
    assert bool(off) == (len(names[0]) < 600)


def test_an_entity_of_another_place_proves_nothing() -> None:
    urns = [a_scope().asset(MCP_SERVER, "a/c").urn, "urn:li:api:any", "urn:li:document:a,b"]
    reader = FakeReader({"risk": FakeStore([], [], [], [], [])})
    assert (
        list(missing_assets(reader, SCOPE, [Unlisted(u, {}) for u in urns], LISTED, LISTED)) == []
    )
