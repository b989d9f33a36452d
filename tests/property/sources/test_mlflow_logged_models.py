"""A mapped run has what its logged models say, by the rules of the oracle."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mlcat_ingest.metadata.aspects import ML_MODEL_PROPERTIES
from mlcat_ingest.sources.mlflow.mapping import map_record
from mlcat_ingest.sources.mlflow.values.joined import JoinedRun
from mlcat_ingest.sources.mlflow.values.records import LoggedModel, ModelOutput, Run
from oracle.comparison import Stored, cleaned, holds
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


def mapped(run: Run, made: dict[str, LoggedModel]) -> Stored:
    [entity] = map_record(JoinedRun(a_scope(), run, an_experiment(), models=made))
    return Stored({ML_MODEL_PROPERTIES: entity.aspects[ML_MODEL_PROPERTIES]})


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
    stored = mapped(run, {"m-1": model})
    held = stored.named("hyperParams")
    for name, value in (*params.items(), *model.params.items()):
        assert holds(name, value, held), name
    for name, value in (*tags.items(), *model.tags.items()):
        assert holds(name, value, stored.custom), name
    assert stored.custom["mlflow.model_id"] == "m-1"
    assert stored.custom["mlflow.model_status"] == model.status


@settings(max_examples=examples(60))
@given(made=st.lists(models, min_size=2, max_size=4))
def test_several_logged_models_are_found_in_their_list(made: list[LoggedModel]) -> None:
    named = {f"m-{at}": replace(one, model_id=f"m-{at}") for at, one in enumerate(made)}
    stored = mapped(a_run(model_outputs=tuple(ModelOutput(one, 0) for one in named)), named)
    listed: dict[str, Any] = {
        one["id"]: one for one in json.loads(stored.custom["mlflow.logged_models"])
    }
    for model_id, model in named.items():
        found = listed[model_id]
        assert found["status"] == model.status
        for field in ("params", "tags"):
            for name, value in getattr(model, field).items():
                assert holds(name, value, cleaned(found.get(field))), (field, name)
