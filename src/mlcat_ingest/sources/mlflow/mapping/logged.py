"""Logged models: those of MLflow 3 that a run names, and MLflow 2's list of them in a tag."""

from collections.abc import Mapping
from typing import Any

from mlcat_ingest.sources.mlflow.mapping.properties import PropertiesBuilder
from mlcat_ingest.sources.mlflow.mapping.text import compact_json
from mlcat_ingest.sources.mlflow.values.mlmodel import logged_history
from mlcat_ingest.sources.mlflow.values.names import HISTORY_TAG, OwnKey
from mlcat_ingest.sources.mlflow.values.records import LoggedModel, ModelOutput, Run


def put_logged_models(
    custom: PropertiesBuilder, run: Run, models: Mapping[str, LoggedModel]
) -> None:
    """Add JSON lists of the logged models that a run made, and of the ids of those it used."""
    if run.model_outputs:
        for output in run.model_outputs:
            if output[0] not in models:
                custom.fitter.note("logged_model_unlisted", output[0])
        made = compact_json([_made(output, models.get(output[0])) for output in run.model_outputs])
        custom.put_own(OwnKey.LOGGED_MODELS, made)
    if run.model_inputs:
        custom.put_own(OwnKey.MODEL_INPUTS, compact_json(run.model_inputs))


def _made(output: ModelOutput, model: LoggedModel | None) -> dict[str, str | int]:
    told: dict[str, str | int] = {"id": output.model_id}
    if model is not None:
        told["name"] = model.name
    if output.step is not None:
        told["step"] = output.step
    if model is not None:
        told["status"] = model.status
        if model.model_type:
            told["type"] = model.model_type
    return told


def put_history(custom: PropertiesBuilder, tags: Mapping[str, str]) -> None:
    """Add what names the models of MLflow 2's list: flavors, UUIDs, artifact paths."""
    history = tags.get(HISTORY_TAG)
    if not history:
        return
    models = logged_history(tags)
    if not models:
        custom.fitter.note("unreadable_tag", HISTORY_TAG)
        custom.values[HISTORY_TAG] = custom.fitter.text(history, HISTORY_TAG)
        return
    flavors: dict[str, None] = {}
    for model in models:
        found = model.get("flavors")
        flavors.update(dict.fromkeys(found if isinstance(found, dict) else ()))
    told = {
        OwnKey.MODEL_FLAVORS: sorted(flavors),
        OwnKey.MODEL_UUID: _texts(models, "model_uuid"),
        OwnKey.MODEL_ARTIFACT_PATH: _texts(models, "artifact_path"),
    }
    for key, values in told.items():
        custom.put_own(key, ",".join(values))


def _texts(models: list[dict[str, Any]], key: str) -> list[str]:
    values = (model.get(key) for model in models)
    return [value for value in values if isinstance(value, str) and value]
