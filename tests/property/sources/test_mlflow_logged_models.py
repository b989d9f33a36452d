"""`verify` finds in a mapped run what its logged models say, by rules of its own."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_PROPERTIES
from mlcat_ingest.sources.mlflow.mapping import map_record
from mlcat_ingest.sources.mlflow.values.joined import JoinedRun
from mlcat_ingest.sources.mlflow.values.records import LoggedModel, ModelOutput, Run
from mlcat_ingest.workflows.verify_entities import EntityComparison
from mlcat_ingest.workflows.verify_models import compare_made_models, with_models
from mlcat_ingest.workflows.verify_result import VerifyResult
from support.examples import examples
from support.mlflow_records import a_run, a_scope, an_experiment

keys = st.sampled_from(
    ["lr", "del\x7f", "forest/lr", "model.team", "team", "mlflow.status", "tag.mlflow.status"]
) | st.text(st.characters(exclude_categories=["Cc"]), min_size=1, max_size=8)
texts = st.dictionaries(keys, st.sampled_from(["1", "2", ""]) | st.text(max_size=12), max_size=5)
models = st.builds(
    LoggedModel,
    model_id=st.just("m-1"),
    experiment_id=st.just("1"),
    name=st.sampled_from(["forest", "", "ü/é"]),
    status=st.sampled_from(["READY", "FAILED"]),
    source_run_id=st.just("a" * 32),
    params=texts,
    tags=texts,
)


def found_by_verify(run: Run, made: dict[str, LoggedModel]) -> VerifyResult:
    [entity] = map_record(JoinedRun(a_scope(), run, an_experiment(), models=made))
    value = entity.aspects[ML_MODEL_PROPERTIES]
    return compared(entity.urn, value, run, made)


def compared(urn: str, properties: Any, run: Run, made: dict[str, LoggedModel]) -> VerifyResult:
    result = VerifyResult("r")
    stored = {ML_MODEL_PROPERTIES: StoredAspect(properties, "1")}
    entity = EntityComparison(result, urn, ML_MODEL_PROPERTIES, stored)
    expected = with_models(run, made, ())
    entity.params(expected.params)
    entity.tags(expected.tags, without=())
    compare_made_models(entity, run, made)
    return result


@settings(max_examples=examples(60))
@given(params=texts, tags=texts, model=models)
@example(
    {"lr": "1", "forest/lr": "3"},
    {},
    LoggedModel("m-1", "1", "forest", "READY", params={"lr": "2"}),
)
def test_the_only_logged_model_is_found_on_the_model_of_its_run(
    params: dict[str, str], tags: dict[str, str], model: LoggedModel
) -> None:
    run = a_run(params=params, tags=tags, model_outputs=(ModelOutput("m-1", 0),))
    assert found_by_verify(run, {"m-1": model}).kept == {}


@settings(max_examples=examples(60))
@given(tags=texts, made=st.lists(models, min_size=2, max_size=4))
def test_several_logged_models_are_found_in_their_list(
    tags: dict[str, str], made: list[LoggedModel]
) -> None:
    named = {f"m-{at}": replace(one, model_id=f"m-{at}") for at, one in enumerate(made)}
    run = a_run(tags=tags, model_outputs=tuple(ModelOutput(one, 0) for one in named))
    assert found_by_verify(run, named).kept == {}


def test_what_a_list_of_logged_models_has_lost_is_reported() -> None:
    made = {
        one: LoggedModel(one, "1", "forest", "READY", params={"lr": "1"}, tags={"team": "risk"})
        for one in ("m-1", "m-2", "m-3")
    }
    run = a_run(model_outputs=tuple(ModelOutput(one, 0) for one in made))
    [entity] = map_record(JoinedRun(a_scope(), run, an_experiment(), models=made))
    value = dict(entity.aspects[ML_MODEL_PROPERTIES])
    listed = json.loads(value["customProperties"]["mlflow.logged_models"])
    listed[0]["status"] = "PENDING"
    listed[0]["params"]["lr"] = "2"
    listed[1]["tags"] = {}
    custom = {**value["customProperties"], "mlflow.logged_models": json.dumps(listed[:2])}
    result = compared(entity.urn, {**value, "customProperties": custom}, run, made)
    found = [(one.outcome, one.kind) for kept in result.kept.values() for one in kept]
    assert sorted(found) == [
        ("missing", "logged model"),
        ("missing", "tag"),
        ("stale", "logged model"),
        ("stale", "parameter"),
    ]


def test_what_one_property_has_no_room_for_is_counted_as_left_out() -> None:
    made = {
        f"m-{at}": LoggedModel(f"m-{at}", "1", "forest", "READY", params={"text": "v" * 900})
        for at in range(20)
    }
    run = a_run(model_outputs=tuple(ModelOutput(one, 0) for one in made))
    result = found_by_verify(run, made)
    assert result.kept == {}
    [(reason, count)] = result.left_out.items()
    assert (reason.noun, count) == ("parameter", 20 - result.compared["parameter"])
    assert result.compared["parameter"] > 5
