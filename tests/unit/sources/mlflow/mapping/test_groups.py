"""`compat: datahub`: registered models and versions go by the names of DataHub's own source."""

import pytest
from pydantic import ValidationError

from mlcat_ingest.metadata.naming import DATAHUB_TEMPLATES
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.mapping import map_record
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedRecord,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedVersion,
)
from mlcat_ingest.sources.mlflow.values.records import Metric, ModelVersion, RegisteredModel
from support.mlflow_records import a_run, a_scope, an_experiment

SCOPE = a_scope(templates=DATAHUB_TEMPLATES)
PLATFORM = "urn:li:dataPlatform:mlflow"
RUN = f"urn:li:mlModel:({PLATFORM},{'a' * 32},PROD)"
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
    return JoinedRun(SCOPE, run, an_experiment(), versions=VERSIONS)


def test_a_version_goes_by_the_name_of_its_model_and_its_number() -> None:
    run = a_registered_run()
    version = mapped(JoinedVersion(SCOPE, VERSIONS[1], REGISTERED["scorer"], run=run))[VERSION_2]
    assert version.aspects["versionProperties"]["versionSet"] == VERSION_SET
    properties = version.aspects["mlModelProperties"]
    assert properties["groups"] == [GROUP]
    assert properties["customProperties"]["mlflow.run_model"] == RUN


def test_the_runs_model_is_in_the_group_of_its_experiment() -> None:
    properties = mapped(a_registered_run())[RUN].aspects["mlModelProperties"]
    assert properties["groups"] == [f"urn:li:mlModelGroup:({PLATFORM},experiment:fraud,PROD)"]
    assert properties["customProperties"]["mlflow.versions"] == '["scorer:1","scorer:2"]'


def test_a_registered_model_is_the_group_of_its_name() -> None:
    found = mapped(JoinedRegisteredModel(SCOPE, REGISTERED["scorer"], ("2",)))
    assert {GROUP} == set(found), "the service makes the version set with the first version"


def test_each_workspace_has_version_sets_of_its_own() -> None:
    there = a_scope(templates=DATAHUB_TEMPLATES, workspace="team-a")
    sets = {
        entity.aspects["versionProperties"]["versionSet"]
        for scope in (SCOPE, there)
        for entity in map_record(JoinedVersion(scope, VERSIONS[1], REGISTERED["scorer"]))
        if "versionProperties" in entity.aspects
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
        ({"instance": "eu"}, r"compat: datahub.*`instance`"),
        ({"platform_instance": "eu"}, r"compat: datahub.*`instance`"),
        ({"naming": {"group": "{experiment}"}}, "begin with the same text"),
        ({"naming": 5}, "naming"),
    ],
)
def test_what_does_not_go_with_it(more: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        MlflowConfig.model_validate({"compat": "datahub", **more})
