"""Records of MLflow for tests: built by hand, or from the JSON of a golden case."""

from collections.abc import Mapping
from typing import Any

from mlcat_ingest.links.rules import LinkOptions
from mlcat_ingest.metadata.naming import DATAHUB_TEMPLATES, Naming, Templates
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.urn import dataset as dataset_urn
from mlcat_ingest.sources.datasets import Datasets, DatasetsConfig
from mlcat_ingest.sources.mlflow.read.assets import asset
from mlcat_ingest.sources.mlflow.values.assets import Asset, AssetVersion
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedAgent,
    JoinedAsset,
    JoinedDataset,
    JoinedExperiment,
    JoinedLoggedModel,
    JoinedRecord,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedVersion,
    MappingOptions,
    RunFiles,
    SizeLimits,
    WorkspaceScope,
)
from mlcat_ingest.sources.mlflow.values.records import (
    DatasetInput,
    Experiment,
    LoggedModel,
    MeasuredModel,
    Metric,
    ModelOutput,
    ModelVersion,
    RegisteredModel,
    Run,
    model_document,
)
from mlcat_ingest.sources.mlflow.values.signatures import signature_tables
from mlcat_ingest.sources.mlflow.values.uris import ui_links
from mlcat_ingest.sources.options import Owners, OwnersConfig

Json = Mapping[str, Any]


def a_scope(
    *,
    env: str = "PROD",
    instance: str | None = None,
    workspace: str | None = None,
    tracking_uri: str = "http://mlflow:5000",
    ui_url: str | None = None,
    options: Json | None = None,
    owners: Json | None = None,
    datasets: Json | None = None,
    limits: Json | None = None,
    templates: Templates | None = None,
    compat: str | None = None,
) -> WorkspaceScope:
    templates = DATAHUB_TEMPLATES if compat == "datahub" else templates
    return WorkspaceScope(
        naming=Naming(
            platform="mlflow",
            env=env,
            instance=instance,
            workspace=workspace,
            templates=templates,
            shared=templates is DATAHUB_TEMPLATES,
        ),
        links=ui_links(tracking_uri, ui_url=ui_url, workspace=workspace),
        source_key=f"mlflow:0123456789ab:{workspace or 'default'}",
        options=MappingOptions(**(options or {})),
        owners=Owners(OwnersConfig(**(owners or {}))),
        datasets=Datasets(DatasetsConfig.model_validate(datasets or {})),
        limits=SizeLimits(**(limits or {})),
    )


def a_run(run_id: str = "a" * 32, experiment_id: str = "1", **more: Any) -> Run:
    return Run(run_id=run_id, experiment_id=experiment_id, **more)


def an_experiment(experiment_id: str = "1", name: str = "fraud", **more: Any) -> Experiment:
    return Experiment(experiment_id=experiment_id, name=name, **more)


def _metric(value: Json) -> Metric:
    return Metric(**{**value, "value": float(value["value"])})


def _run(value: Json) -> Run:
    more = dict(value)
    more["metrics"] = tuple(_metric(metric) for metric in value.get("metrics", ()))
    more["datasets"] = tuple(DatasetInput(**item) for item in value.get("datasets", ()))
    more["model_inputs"] = tuple(value.get("model_inputs", ()))
    more["model_outputs"] = tuple(ModelOutput(**item) for item in value.get("model_outputs", ()))
    return Run(**more)


def _model(value: Json) -> LoggedModel:
    metrics = tuple(_metric(metric) for metric in value.get("metrics", ()))
    copied = tuple(value.get("copied", ()))
    return LoggedModel(**{**value, "metrics": metrics, "copied": copied})


def _version(value: Json) -> ModelVersion:
    origin = value.get("origin")
    read = {"aliases": tuple(value.get("aliases", ())), "origin": origin and _version(origin)}
    return ModelVersion(**{**value, **read})


def _files(value: Json) -> RunFiles:
    documents = value.get("documents", {})
    read = {key: model_document(one) for key, one in documents.items()}
    return RunFiles(documents=read, cards=value.get("cards"))


def _asset(made: Json) -> Asset:
    if "item" in made:
        return asset(**made)
    versions = tuple(AssetVersion(**one) for one in made["versions"])
    return Asset(**{**made, "versions": versions})


def record_from_json(value: Json) -> JoinedRecord:
    """Return the record of a golden case's `record.json`; exactly one of its kinds is there."""
    scope = a_scope(**value.get("scope", {}))
    registered = {item["name"]: RegisteredModel(**item) for item in value.get("registered", ())}
    models = {item["model_id"]: _model(item) for item in value.get("models", ())}
    match value:
        case {"asset": made}:
            return JoinedAsset(scope, _asset(made), tuple(value.get("related", ())))
        case {"agent": made}:
            uses = {field: tuple(urns) for field, urns in value["uses"].items()}
            of = Experiment(**value["experiment"])
            return JoinedAgent(scope, _model(made), of, uses, tuple(value["unknown"]))
        case {"signature_of": made}:
            links = {"links": LinkOptions(from_signature=True)}
            record = record_from_json(
                {**made, "scope": {**made.get("scope", {}), "options": links}}
            )
            assert isinstance(record, JoinedRun | JoinedVersion)
            (table,) = signature_tables(record)
            return table
        case {"run": run}:
            experiment = value.get("experiment")
            return JoinedRun(
                scope,
                _run(run),
                None if experiment is None else Experiment(**experiment),
                versions=tuple(map(_version, value.get("versions", ()))),
                models=models,
                parent_id=value.get("parent_id"),
                parent_name=value.get("parent_name"),
                has_children=value.get("has_children", False),
                children=value.get("children"),
                abandoned=value.get("abandoned", False),
                files=_files(value),
                measures=tuple(MeasuredModel(**one) for one in value.get("measures", ())),
            )
        case {"dataset": dataset}:
            platform, name = dataset["place"]
            urn = dataset_urn(platform, name, scope.naming.env)
            item = DatasetInput(**dataset["item"])
            return JoinedDataset(scope, urn, item, dataset["run_id"], dataset["start_time_ms"])
        case {"version": version}:
            run = record_from_json(value["of_run"]) if "of_run" in value else None
            assert run is None or isinstance(run, JoinedRun)
            return JoinedVersion(
                scope,
                _version(version),
                registered.get(version["name"]),
                models.get(version.get("model_id", "")),
                run,
                _files(value) if run is None else run.files,
            )
        case {"logged_model": model}:
            return JoinedLoggedModel(scope, _model(model), Experiment(**value["experiment"]))
        case {"registered_model": model}:
            numbers = tuple(value.get("versions", ()))
            return JoinedRegisteredModel(scope, RegisteredModel(**model), numbers)
        case {"experiment": experiment}:
            return JoinedExperiment(scope, Experiment(**experiment))
        case _:
            raise AssertionError(f"a golden case with no record: {sorted(value)}")


def _is_empty(value: object) -> bool:
    return value is None or value in ([], {})


def entity_to_json(entity: Entity) -> dict[str, Any]:
    """Return an entity as a golden case's `proposals.json` shows it, aspects in their order.

    Fields that were read and are empty are listed beside what is there.
    """
    shown: dict[str, Any] = {"urn": entity.urn}
    if entity.only_if_absent:
        shown["only_if_absent"] = True
    shown["aspects"] = {}
    empty = []
    for name, aspect in entity.aspects.items():
        empty += [f"{name}.{field}" for field, value in aspect.items() if _is_empty(value)]
        records = {field: one for field, one in aspect.items() if isinstance(one, dict)}
        empty += [
            f"{name}.{field}.{part}"
            for field, record in records.items()
            for part, value in record.items()
            if value is None
        ]
        whole = {
            field: {part: value for part, value in record.items() if value is not None}
            for field, record in records.items()
        }
        message = {f: value for f, value in {**aspect, **whole}.items() if not _is_empty(value)}
        if message:
            shown["aspects"][name] = message
    if empty:
        shown["read_and_empty"] = empty
    if entity.notes:
        shown["notes"] = [list(note) for note in entity.notes]
    return shown
