"""Maps the logged models of MLflow 3 onto the model of the run that made them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mlcat_ingest.core.text import compact_json
from mlcat_ingest.sources.mlflow.mapping.metrics import free_name
from mlcat_ingest.sources.mlflow.mapping.properties import PropertiesBuilder
from mlcat_ingest.sources.mlflow.values.records import (
    NAMING_TAG,
    LoggedModel,
    ModelOutput,
    PropertyKey,
    Run,
)

Facts = dict[str, Any]

_PREFIX: Final = "model."
"""Begins the name of a tag of a logged model where its run has another value under that name."""


def only_model(run: Run, models: Mapping[str, LoggedModel]) -> LoggedModel | None:
    """Return the logged model of a run that made one; None where it is not listed."""
    if not models:
        return None
    ids = {output.model_id for output in run.model_outputs}
    return models.get(ids.pop()) if len(ids) == 1 else None


def params_with_model(run: Run, model: LoggedModel | None) -> Mapping[str, str]:
    """Return the parameters of a run and of its only logged model.

    A parameter of the model is called `<model>/<name>` if the run has another value under its name.
    """
    if model is None or not model.params:
        return run.params
    result = {**model.params, **run.params}
    for name, value in sorted(model.params.items()):
        if result[name] != value:
            result[free_name(f"{model.name or model.model_id}/{name}", result)] = value
    return result


def tags_with_model(
    tags: Mapping[str, str], model: LoggedModel, mapped: frozenset[str]
) -> Mapping[str, str]:
    """Return the tags of a run and of its only logged model.

    A tag of the model is called `model.<name>` where the run has another value under that name, or
    where the tag is `mapped`, which means it becomes something else on a run.
    """
    result = dict(tags)
    for name, value in sorted(model.tags.items()):
        if tags.get(name) == value:
            continue
        free = name
        while free in result or free in mapped:
            free = _PREFIX + free
        result[free] = value
    return result


def add_model_facts(custom: PropertiesBuilder, model: LoggedModel) -> None:
    """Add our own properties of a logged model."""
    custom.set_own(PropertyKey.MODEL_ID, model.model_id)
    custom.set_own(PropertyKey.MODEL_STATUS, model.status)
    custom.set_own(PropertyKey.MODEL_TYPE, model.model_type)


def add_logged_models(
    custom: PropertiesBuilder, run: Run, models: Mapping[str, LoggedModel]
) -> None:
    """Add a JSON list of the logged models that a run made, and of the ids of those it used.

    Of several the list has parameters and tags, too, as far as one property has room.
    """
    outputs = run.model_outputs
    for output in outputs:
        if output.model_id not in models:
            custom.truncator.note("logged_model_unlisted", output.model_id)
    if outputs:
        model = only_model(run, models)
        if model is not None:
            add_model_facts(custom, model)
        statuses = {
            f"models:/{output.model_id}": models[output.model_id].status
            for output in outputs
            if output.model_id in models
        }
        if len(set(statuses.values())) > 1:
            custom.set_own(PropertyKey.MODEL_STATUS, compact_json(statuses))
        if len(outputs) > 1:
            custom.set_own(PropertyKey.LOGGED_MODEL_COUNT, str(len(outputs)))
        entries = [_facts(output, models.get(output.model_id), run) for output in outputs]
        details = [
            {} if model else _details(models.get(output.model_id), run) for output in outputs
        ]
        custom.set_own(PropertyKey.LOGGED_MODELS, _fitting_list(entries, details, custom))
    if run.model_inputs:
        custom.set_own(PropertyKey.MODEL_INPUTS, compact_json(run.model_inputs))


def _facts(output: ModelOutput, model: LoggedModel | None, run: Run) -> Facts:
    facts: Facts = {"id": output.model_id, "step": output.step}
    if model is not None:
        source = None if model.source_run_id == run.run_id else model.source_run_id
        facts = {"id": output.model_id, "name": model.name, "step": output.step}
        facts |= {"status": model.status, "type": model.model_type or None, "run": source}
    return {key: value for key, value in facts.items() if value is not None}


def _details(model: LoggedModel | None, run: Run) -> Facts:
    """Return parameters and tags of a logged model, but for tags that its run has, too."""
    if model is None:
        return {}
    tags = {
        name: value
        for name, value in sorted(model.tags.items())
        if run.tags.get(name) != value and name != NAMING_TAG
    }
    details = {"params": dict(sorted(model.params.items())), "tags": tags}
    return {key: value for key, value in details.items() if value}


def _fitting_list(
    entries: Sequence[Facts], details: Sequence[Facts], custom: PropertiesBuilder
) -> str:
    """Return JSON that one property has room for: first all facts, then details in order."""
    room = custom.truncator.limits.value_chars - len("[]")
    sizes = [len(compact_json(entry)) + len(",") for entry in entries]
    kept = len(entries)
    while kept > 1 and sum(sizes[:kept]) > room:
        kept -= 1
    custom.leave_out("logged models", kept, len(entries))
    room -= sum(sizes[:kept])
    shown, detailed, wanted = [], 0, 0
    for entry, more in zip(entries[:kept], details, strict=False):
        size = len(compact_json(more)) - len("{}") + len(",") if more else 0
        fits = size <= room
        wanted += bool(more)
        detailed += bool(more) and fits
        room -= size if fits else 0
        shown.append({**entry, **more} if fits else entry)
    custom.leave_out("logged models' parameters and tags", detailed, wanted)
    return compact_json(shown)
