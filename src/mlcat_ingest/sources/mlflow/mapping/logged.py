"""Logged models: those of MLflow 3 that a run names, and MLflow 2's list of them in a tag."""

from collections.abc import Mapping
from typing import Any

from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.sources.mlflow.joined import Limits
from mlcat_ingest.sources.mlflow.mapping.properties import put_own
from mlcat_ingest.sources.mlflow.mapping.text import compact_json, fit
from mlcat_ingest.sources.mlflow.mlmodel import logged_history
from mlcat_ingest.sources.mlflow.names import HISTORY_TAG, OwnKey
from mlcat_ingest.sources.mlflow.records import LoggedModel, ModelOutput, Run


def put_logged_models(
    custom: dict[str, str],
    run: Run,
    models: Mapping[str, LoggedModel],
    limits: Limits,
    notes: list[Note],
) -> None:
    """Add JSON lists of the logged models that a run made, and of the ids of those it used."""
    if run.model_outputs:
        unlisted = [output[0] for output in run.model_outputs if output[0] not in models]
        notes.extend(Note("logged_model_unlisted", model_id) for model_id in unlisted)
        made = compact_json([_made(output, models.get(output[0])) for output in run.model_outputs])
        put_own(custom, OwnKey.LOGGED_MODELS, made, limits, notes)
    if run.model_inputs:
        used = compact_json(run.model_inputs)
        put_own(custom, OwnKey.MODEL_INPUTS, used, limits, notes)


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


def put_history(
    custom: dict[str, str], tags: Mapping[str, str], limits: Limits, notes: list[Note]
) -> None:
    """Add what names the models of MLflow 2's list: flavors, UUIDs, artifact paths."""
    history = tags.get(HISTORY_TAG)
    if not history:
        return
    models = logged_history(tags)
    if not models:
        notes.append(Note("unreadable_tag", HISTORY_TAG))
        custom[HISTORY_TAG] = fit(history, limits.value_chars, notes, HISTORY_TAG)
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
        put_own(custom, key, ",".join(values), limits, notes)


def _texts(models: list[dict[str, Any]], key: str) -> list[str]:
    values = (model.get(key) for model in models)
    return [value for value in values if isinstance(value, str) and value]
