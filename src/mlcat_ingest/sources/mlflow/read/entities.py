"""Converts entities of MLflow's own library to records, as `decode` does JSON; reads its files.

The entities come from whatever MLflow is installed, so attributes that older versions lack are
read with a default.
"""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mlcat_ingest.sources.mlflow.read.decode import (
    Aliases,
    dataset_order,
    metric_order,
    metric_runs,
    model_id_of,
    model_status,
    moment,
    output_order,
    stage,
)
from mlcat_ingest.sources.mlflow.read.files import MAX_BYTES, FileLocation
from mlcat_ingest.sources.mlflow.values.records import (
    NAME_TAG,
    DatasetInput,
    Experiment,
    LoggedModel,
    Metric,
    ModelOutput,
    ModelVersion,
    RegisteredModel,
    Run,
)


def run(entity: Any) -> Run:
    """Return an `mlflow.entities.Run` as a record."""
    info, data = entity.info, entity.data
    inputs = getattr(entity, "inputs", None)
    outputs = getattr(entity, "outputs", None)
    tags = dict(data.tags)
    return Run(
        run_id=info.run_id,
        experiment_id=str(info.experiment_id),
        name=getattr(info, "run_name", None) or tags.get(NAME_TAG) or None,
        user_id=info.user_id or None,
        status=info.status,
        start_time_ms=moment(info.start_time),
        end_time_ms=moment(info.end_time),
        artifact_uri=info.artifact_uri or None,
        lifecycle_stage=info.lifecycle_stage or "active",
        params=dict(data.params),
        metrics=metrics(_run_metrics(data)),
        tags=tags,
        datasets=_datasets(getattr(inputs, "dataset_inputs", None) or ()),
        model_inputs=tuple(
            sorted(one.model_id for one in getattr(inputs, "model_inputs", None) or ())
        ),
        model_outputs=_outputs(getattr(outputs, "model_outputs", None) or ()),
    )


def _run_metrics(data: Any) -> Iterable[Any]:
    # `data.metrics` is a mapping to bare values; timestamps and steps are beside it.
    return getattr(data, "_metric_objs", None) or ()


def metrics(entities: Iterable[Any]) -> tuple[Metric, ...]:
    """Return metric entities as records, in the order of `decode.metrics`."""
    found = [
        Metric(
            one.key,
            float(one.value),
            moment(one.timestamp),
            int(one.step or 0),
            getattr(one, "model_id", None) or None,
            getattr(one, "dataset_name", None) or None,
            getattr(one, "dataset_digest", None) or None,
        )
        for one in entities
    ]
    return tuple(sorted(found, key=metric_order))


def _datasets(entities: Iterable[Any]) -> tuple[DatasetInput, ...]:
    found = [
        DatasetInput(
            one.dataset.name,
            one.dataset.digest or "",
            one.dataset.source_type or "",
            one.dataset.source or "",
            one.dataset.schema or None,
            one.dataset.profile or None,
            {tag.key: tag.value for tag in one.tags},
        )
        for one in entities
    ]
    return tuple(sorted(found, key=dataset_order))


def _outputs(entities: Iterable[Any]) -> tuple[ModelOutput, ...]:
    found = [ModelOutput(one.model_id, int(one.step or 0)) for one in entities]
    return tuple(sorted(found, key=output_order))


def experiment(entity: Any) -> Experiment:
    """Return an `mlflow.entities.Experiment` as a record."""
    return Experiment(
        str(entity.experiment_id),
        entity.name,
        entity.artifact_location or None,
        entity.lifecycle_stage or "active",
        moment(entity.creation_time),
        moment(entity.last_update_time),
        dict(entity.tags),
    )


def registered_model(entity: Any) -> RegisteredModel:
    """Return an `mlflow.entities.model_registry.RegisteredModel` as a record."""
    return RegisteredModel(
        entity.name,
        entity.description or None,
        moment(entity.creation_timestamp),
        moment(entity.last_updated_timestamp),
        dict(entity.tags),
        {alias: str(version) for alias, version in entity.aliases.items()},
    )


def model_version(entity: Any, aliases: Aliases) -> ModelVersion:
    """Return a `ModelVersion` entity as a record, with the aliases of its registered model."""
    source, number = entity.source or None, str(entity.version)
    return ModelVersion(
        name=entity.name,
        version=number,
        run_id=entity.run_id or None,
        source=source,
        model_id=getattr(entity, "model_id", None) or model_id_of(source),
        stage=stage(entity.current_stage),
        status=entity.status or None,
        description=entity.description or None,
        user_id=entity.user_id or None,
        created_at_ms=moment(entity.creation_timestamp),
        last_updated_at_ms=moment(entity.last_updated_timestamp),
        aliases=aliases.of(entity.name, number),
        tags=dict(entity.tags),
    )


def logged_model(entity: Any) -> LoggedModel:
    """Return an `mlflow.entities.LoggedModel` as a record."""
    return LoggedModel(
        model_id=entity.model_id,
        experiment_id=str(entity.experiment_id),
        name=entity.name or "",
        status=model_status(str(getattr(entity.status, "value", entity.status))),
        source_run_id=entity.source_run_id or None,
        model_type=entity.model_type or None,
        artifact_uri=entity.artifact_location or None,
        created_at_ms=moment(entity.creation_timestamp),
        last_updated_at_ms=moment(entity.last_updated_timestamp),
        params=dict(entity.params or {}),
        tags=dict(entity.tags or {}),
        metrics=metrics(entity.metrics or ()),
        metric_runs=metric_runs(getattr(one, "run_id", None) for one in entity.metrics or ()),
    )


def client_text(tracking_uri: str, place: FileLocation, path: str) -> str | None:
    """Return what a file holds, got by MLflow's own client, with whatever that needs for it."""
    from mlflow.artifacts import download_artifacts, list_artifacts
    from mlflow.exceptions import MlflowException

    address = f"{place.uri}/{path}"
    folder, _, name = address.rpartition("/")
    try:
        listed = list_artifacts(artifact_uri=folder, tracking_uri=tracking_uri)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise
    found = next((one for one in listed if one.path.rpartition("/")[2] == name), None)
    if found is None or found.is_dir or (found.file_size or 0) > MAX_BYTES:
        return None
    with TemporaryDirectory() as own:
        file = download_artifacts(artifact_uri=address, dst_path=own, tracking_uri=tracking_uri)
        return Path(file).read_text("utf-8", "replace")
