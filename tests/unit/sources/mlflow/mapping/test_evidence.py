"""What MLflow's records say about features: which tags count, for which model, and which do not."""

import json
from typing import Any

import pytest

from mlcat_ingest.links.rules import (
    Evidence,
    FeastTags,
    LinkOptions,
    UnlinkedModel,
    UsedDataset,
    feast_tags,
)
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.urn import dataset
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.mapping import map_record
from mlcat_ingest.sources.mlflow.values.joined import JoinedRun, JoinedVersion
from mlcat_ingest.sources.mlflow.values.records import (
    DatasetInput,
    LoggedModel,
    ModelOutput,
    ModelVersion,
)
from support.feast_runs import recorded
from support.mlflow_records import a_run, a_scope, an_experiment

FEAST = {"feast.project": "rides", "feast.feature_refs": "drivers:rate"}
HISTORY = "mlflow.log-model.history"


def joined(
    tags: dict[str, str] | None = None,
    *,
    versions: tuple[ModelVersion, ...] = (),
    models: tuple[LoggedModel, ...] = (),
    links: LinkOptions | None = None,
    **run: Any,
) -> JoinedRun:
    options = {"links": links or LinkOptions()}
    made = tuple(ModelOutput(model.model_id) for model in models)
    return JoinedRun(
        a_scope(options=options),
        a_run(tags=tags or {}, model_outputs=made, **run),
        an_experiment(),
        versions=versions,
        models={model.model_id: model for model in models},
    )


def a_version(version: str = "1", **tags: str) -> ModelVersion:
    return ModelVersion("ranker", version, "a" * 32, tags=tags)


def a_model(model_id: str = "m-1", **tags: str) -> LoggedModel:
    return LoggedModel(model_id, "1", "model", "READY", tags=tags)


def models_of(record: JoinedRun | JoinedVersion) -> list[Entity]:
    return [one for one in map_record(record) if one.urn.startswith("urn:li:mlModel:")]


def evidence(record: JoinedRun | JoinedVersion) -> Evidence | None:
    one = models_of(record)[0]
    return one.evidence if isinstance(one, UnlinkedModel) else None


def test_a_run_that_says_nothing_has_no_features() -> None:
    (model,) = models_of(joined({"team": "maps"}))
    assert not isinstance(model, UnlinkedModel)
    assert model.aspects["mlModelProperties"]["mlFeatures"] == []


def test_where_links_are_switched_off_nothing_is_reported_of_features() -> None:
    config = MlflowConfig.model_validate({"features": {"enabled": False}})
    record = JoinedRun(
        a_scope(options={"links": config.features.options()}), a_run(tags=FEAST), an_experiment()
    )
    (model,) = models_of(record)
    assert not isinstance(model, UnlinkedModel)
    assert "mlFeatures" not in model.aspects["mlModelProperties"]


def test_a_run_that_says_something_leaves_open_which_features_it_has() -> None:
    (model,) = models_of(joined(FEAST))
    assert isinstance(model, UnlinkedModel)
    assert "mlFeatures" not in model.aspects["mlModelProperties"]


def test_what_is_declared_for_a_version_goes_before_its_model_and_its_run() -> None:
    tags = {"mlcat.features": "t:run"}
    model = a_model(**{"mlcat.features": "t:model"})
    version = a_version(**{"mlcat.features": "t:version"})
    for record, declared in (
        (joined(tags, models=(model,), versions=(version,)), "t:version"),
        (joined(tags, models=(model,), versions=(a_version(),)), "t:model"),
        (joined(tags, models=(a_model(),)), "t:run"),
        (joined({"mlcat.features": " "}), None),
    ):
        found = evidence(record)
        assert (found.declared if found else None) == declared


def test_two_versions_of_a_run_declare_together_for_it() -> None:
    versions = tuple(a_version(n, **{"mlcat.features": f"t:{n}"}) for n in "12")
    found = evidence(joined(versions=versions))
    assert found is not None
    assert found.declared == "t:1,t:2"


def test_the_tag_itself_is_kept_under_a_name_that_is_not_ours() -> None:
    (model,) = models_of(joined({"mlcat.features": "t:x"}))
    custom = model.aspects["mlModelProperties"]["customProperties"]
    assert custom["source.mlcat.features"] == "t:x"
    assert not any(key.startswith("mlcat.features") for key in custom)


def test_versions_say_what_their_run_says_unless_they_or_their_models_say_more() -> None:
    versions = (a_version("1"), a_version("2", **{"mlcat.features": "t:x"}))
    models = (a_model("m-1", **{"mlcat.features": "t:m"}), a_model("m-2"))
    run = joined({**FEAST, "mlcat.features": "t:run"}, versions=versions, models=models)
    feast = FeastTags("rides", ("drivers:rate",))
    assert evidence(run) == Evidence(declared="t:x", feast=feast)
    for version, model, declared in (
        (versions[0], None, "t:m"),
        (versions[0], models[1], "t:run"),
        (versions[0], models[0], "t:m"),
        (versions[1], models[0], "t:x"),
    ):
        record = JoinedVersion(run.scope, version, model=model, run=run)
        assert evidence(record) == Evidence(declared=declared, feast=feast)


def test_a_version_without_a_run_says_its_own_or_leaves_it_open() -> None:
    scope = a_scope(options={"links": LinkOptions()})
    message = JoinedVersion(scope, a_version(**{"feast.feature_service": "svc"}))
    silent = JoinedVersion(scope, a_version())
    by_model = JoinedVersion(scope, a_version(), model=a_model(**{"mlcat.features": "t:x"}))
    assert evidence(message) == Evidence(feast=FeastTags(service="svc"))
    assert evidence(by_model) == Evidence(declared="t:x")
    (model,) = models_of(silent)
    assert "mlFeatures" not in model.aspects["mlModelProperties"]


@pytest.mark.parametrize("name", ["apply_rides", "materialize_rides"])
def test_operations_of_feast_are_no_training_runs(name: str) -> None:
    assert evidence(joined({**recorded(name)["tags"], **FEAST})) is None


def test_a_run_that_only_uses_a_model_was_trained_with_nothing() -> None:
    tags = {**recorded("prediction")["tags"], "feast.retrieval_type": "historical"}
    assert evidence(joined(tags)) is None
    assert evidence(joined(tags, models=(a_model(),))) is not None


def test_tags_of_a_real_run_are_read() -> None:
    found = evidence(joined(recorded("guessed_service")["tags"]))
    assert found == Evidence(
        feast=FeastTags(
            project="rides",
            refs=("driver_hourly_stats:acc_rate",),
            count=1,
            service="driver_activity_v1",
            retrieval="historical",
        )
    )


@pytest.mark.parametrize(
    ("text", "count", "refs", "cut"),
    [
        ("a:x,b:y", "2", ("a:x", "b:y"), "whole"),
        ("a:x,b:y", None, ("a:x", "b:y"), "whole"),
        ("a:x,b:y...", "2", ("a:x",), "cut"),
        ("a:x,b:y", "3", ("a:x",), "cut"),
        ("a:x,a:x", "1", ("a:x", "a:x"), "whole"),
        ("a:x, ,", "many", ("a:x",), "whole"),
        ("a:x", "²", ("a:x",), "whole"),
        ("...", "200", (), "cut"),
    ],
)
def test_references_are_cut_where_they_end_in_dots_or_are_too_few(
    text: str, count: str | None, refs: tuple[str, ...], cut: str
) -> None:
    tags = {"feast.feature_refs": text, **({"feast.feature_count": count} if count else {})}
    for found in (feast_tags(tags, {}), feast_tags({"feast.project": "rides"}, tags)):
        assert found is not None
        assert (found.refs, found.is_cut) == (refs, cut == "cut")


def test_parameters_of_older_versions_of_feast_count_where_there_are_no_tags() -> None:
    params = {"feast.feature_refs": "drivers:trips", "feast.project": "rides"}
    by_params, by_tags = evidence(joined(params=params)), evidence(joined(FEAST, params=params))
    assert by_params == Evidence(feast=FeastTags("rides", ("drivers:trips",)))
    assert by_tags == Evidence(feast=FeastTags("rides", ("drivers:rate",)))


def history(*inputs: list[str] | None) -> str:
    return json.dumps(
        [
            {
                "artifact_path": f"model-{i}",
                "signature": names and {"inputs": json.dumps(columns(names))},
            }
            for i, names in enumerate(inputs)
        ]
    )


def columns(names: list[str]) -> list[dict[str, str]]:
    return [{"name": name, "type": "double"} for name in names]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (history(["a", "b"]), {"a", "b"}),
        (history(["a"], ["b"]), {"a", "b"}),
        (history(["a"], None), None),
        (history([]), None),
        ('[{"artifact_path": "m", "signature": {"inputs": "["}}]', None),
        ('[{"artifact_path": "m", "signature": {"inputs": "[{\\"type\\": \\"tensor\\"}]"}}]', None),
        ("[{...", None),
    ],
)
def test_the_signature_is_that_of_all_models_of_a_run(text: str, found: set[str] | None) -> None:
    message = evidence(joined({**FEAST, HISTORY: text}))
    assert message is not None
    assert message.columns == (None if found is None else frozenset(found))


def test_datasets_are_evidence_only_where_they_are_asked_for_and_train() -> None:
    schema = json.dumps({"mlflow_colspec": columns(["rate", "label"])})
    source = json.dumps({"uri": "s3://lake/drivers"})

    def used(context: str, schema: str | None = schema) -> DatasetInput:
        tags = {"mlflow.data.context": context}
        return DatasetInput("d", "1", "s3", source, schema, None, tags)

    datasets = (used("training"), used("test"), used("training", None))
    urn = dataset("s3", "lake/drivers", "PROD")
    asked = joined(links=LinkOptions(dataset_match=True), datasets=datasets)
    assert evidence(asked) == Evidence(datasets=(UsedDataset(urn, frozenset({"rate", "label"})),))
    assert evidence(joined(datasets=datasets)) is None


def test_the_training_data_of_feast_is_no_dataset_of_the_catalog() -> None:
    (item,) = recorded("full_feature_names")["datasets"]
    (model,) = models_of(joined(datasets=(DatasetInput(**item),)))
    assert model.aspects["mlModelTrainingData"] == {"trainingData": []}


@pytest.mark.parametrize("wrong", [{"instance": "x" * 400}, {"projekt": "x"}])
def test_a_configuration_that_cannot_make_names_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"features"):
        MlflowConfig.model_validate({"features": wrong})
