"""`compat: datahub`: versions are models of their own, named as DataHub's own source names them."""

import pytest
from pydantic import ValidationError

from mlcat_ingest.metadata.naming import DATAHUB_TEMPLATES
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.mapping import map_record
from mlcat_ingest.sources.mlflow.mapping.records import (
    JoinedRecord,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedVersion,
)
from mlcat_ingest.sources.mlflow.records import Metric, ModelVersion, RegisteredModel
from support.mlflow_records import a_run, a_scope, an_experiment

SCOPE = a_scope(options={"version_models": True}, templates=DATAHUB_TEMPLATES)
PLATFORM = "urn:li:dataPlatform:mlflow"
RUN = f"urn:li:mlModel:({PLATFORM},{'a' * 32},PROD)"
VERSION_1 = f"urn:li:mlModel:({PLATFORM},scorer_1,PROD)"
VERSION_2 = f"urn:li:mlModel:({PLATFORM},scorer_2,PROD)"
GROUP = f"urn:li:mlModelGroup:({PLATFORM},scorer,PROD)"
# datahub_guid({"platform": "mlflow", "name": "scorer"}) of the DataHub SDK
VERSION_SET = "urn:li:versionSet:(bae1a4f9edad4b905ab8dea896443ddb,mlModel)"

VERSIONS = tuple(
    ModelVersion("scorer", number, run_id="a" * 32, stage=stage, tags={"team": number})
    for number, stage in (("1", "Archived"), ("2", "Production"))
)
REGISTERED = {"scorer": RegisteredModel("scorer", description="Scores.", aliases={"best": "2"})}


def mapped(record: JoinedRecord) -> dict[str, Entity]:
    return {entity.urn: entity for entity in map_record(record)}


def a_registered_run() -> JoinedRun:
    run = a_run(params={"depth": "3"}, metrics=(Metric("auc", 0.5),))
    return JoinedRun(SCOPE, run, an_experiment(), versions=VERSIONS, registered=REGISTERED)


def test_each_version_is_a_model_beside_that_of_its_run() -> None:
    found = mapped(a_registered_run())
    assert {RUN, VERSION_1, VERSION_2} < set(found)
    properties = found[VERSION_2].aspects["mlModelProperties"]
    assert properties["groups"] == [GROUP]
    assert [each["name"] for each in properties["hyperParams"]] == ["depth"]
    assert [each["value"] for each in properties["trainingMetrics"]] == ["0.5"]
    custom = properties["customProperties"]
    assert (custom["mlflow.run_id"], custom["mlflow.run_model"]) == ("a" * 32, RUN)
    assert custom["version.team"] == "2"
    assert found[VERSION_2].aspects["versionProperties"]["aliases"] == [{"versionTag": "best"}]
    assert found[VERSION_1].aspects["versionProperties"]["aliases"] == []


def test_the_runs_model_names_its_versions_and_is_none_of_them() -> None:
    run = mapped(a_registered_run())[RUN]
    properties = run.aspects["mlModelProperties"]
    assert properties["groups"] == [f"urn:li:mlModelGroup:({PLATFORM},experiment:fraud,PROD)"]
    assert properties["customProperties"]["mlflow.versions"] == '["scorer:1","scorer:2"]'
    assert "version.team" not in properties["customProperties"]
    assert properties["description"] is None
    assert run.aspects["globalTags"] == {"tags": []}
    assert run.aspects["versionProperties"]["versionSet"] is None


def test_a_version_keeps_its_urn_when_its_run_is_gone() -> None:
    alone = mapped(JoinedVersion(SCOPE, VERSIONS[1], REGISTERED["scorer"]))
    custom = alone[VERSION_2].aspects["mlModelProperties"]["customProperties"]
    assert "mlflow.run_model" not in custom


def test_a_registered_model_is_the_group_of_its_name() -> None:
    found = mapped(JoinedRegisteredModel(SCOPE, REGISTERED["scorer"], ("2",)))
    assert {GROUP, VERSION_SET} == set(found)


def test_each_workspace_has_version_sets_of_its_own() -> None:
    there = a_scope(
        options={"version_models": True}, templates=DATAHUB_TEMPLATES, workspace="team-a"
    )
    sets = {
        urn
        for scope in (SCOPE, there)
        for urn in mapped(JoinedRegisteredModel(scope, REGISTERED["scorer"], ("2",)))
        if urn.startswith("urn:li:versionSet:")
    }
    assert len(sets) == 2


def test_a_template_of_the_recipe_wins_over_the_preset() -> None:
    config = MlflowConfig.model_validate({"compat": "datahub"})
    assert config.naming.registered_group == "{name}"
    assert config.naming.group == "experiment:{experiment}"
    own = MlflowConfig.model_validate(
        {"compat": "datahub", "naming": {"version": "{name}-{version}"}}
    )
    assert own.naming.version == "{name}-{version}"
    assert own.naming.registered_group == "{name}"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"instance": "eu"}, "`compat: datahub` and `instance` exclude each other"),
        ({"platform_instance": "eu"}, "`compat: datahub` and `instance` exclude each other"),
        ({"naming": {"group": "{experiment}"}}, "begin with the same text"),
        ({"naming": 5}, "naming"),
    ],
)
def test_what_does_not_go_with_it(more: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        MlflowConfig.model_validate({"compat": "datahub", **more})
