"""MLflow's JSON to records. Called once for everything read, so kept short and flat.

Source: the JSON that MLflow's servers make of their protocol buffers: 64-bit integers as numbers
or as texts, metric values that are no numbers as `"NaN"`, `"Infinity"`, `"-Infinity"`, and empty
lists left out.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar
from unicodedata import combining, normalize

from mlcat_ingest.errors import ProtocolMismatchError
from mlcat_ingest.sources.mlflow.values.records import (
    NAME_TAG,
    PROMPT_TAG,
    DatasetInput,
    Experiment,
    LoggedModel,
    Metric,
    ModelOutput,
    ModelVersion,
    RegisteredModel,
    Run,
)

RecordT = TypeVar("RecordT")
Json = Mapping[str, Any]

_MODEL_SOURCE = re.compile(r"models:/(m-[0-9a-f]{32})/?")
_MODEL_STATUS = {"UPLOAD_FAILED": "FAILED"}
_STATUS_PREFIX = "LOGGED_MODEL_"

_NEW = tuple.__new__
_NAME = itemgetter(0)


def decode_page(
    listing: str, decode: Callable[[Json], RecordT], items: Iterable[Json]
) -> list[RecordT]:
    """Return the records of one page.

    Raises:
        ProtocolMismatchError: an item is not shaped as MLflow's are.
    """
    try:
        return [decode(item) for item in items]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolMismatchError(
            f"MLflow's listing of {listing} contains an item of an unknown form: {error!r}",
            hint="check that the address is that of an MLflow server",
        ) from error


def run_id(item: Json) -> str:
    """Return the id of one item of `runs/search`."""
    info = item["info"]
    id_: str = info.get("run_id") or info["run_uuid"]
    return id_


def run(item: Json) -> Run:
    """Return one item of `runs/search`."""
    info = item["info"]
    data = item.get("data") or {}
    tags = pairs(data.get("tags"))
    inputs = item.get("inputs")
    outputs = item.get("outputs")
    return Run(
        run_id(item),
        str(info["experiment_id"]),
        info.get("run_name") or tags.get(NAME_TAG) or None,
        info.get("user_id") or None,
        info.get("status"),
        moment(info.get("start_time")),
        moment(info.get("end_time")),
        info.get("artifact_uri") or None,
        info.get("lifecycle_stage") or "active",
        pairs(data.get("params")),
        metrics(data.get("metrics")),
        tags,
        _datasets(inputs["dataset_inputs"]) if inputs and "dataset_inputs" in inputs else (),
        model_inputs(inputs["model_inputs"]) if inputs and "model_inputs" in inputs else (),
        model_outputs(outputs["model_outputs"]) if outputs and "model_outputs" in outputs else (),
    )


def experiment(item: Json) -> Experiment:
    """Return one item of `experiments/search`."""
    return Experiment(
        str(item["experiment_id"]),
        item["name"],
        item.get("artifact_location") or None,
        item.get("lifecycle_stage") or "active",
        moment(item.get("creation_time")),
        moment(item.get("last_update_time")),
        pairs(item.get("tags")),
    )


def registered_model(item: Json) -> RegisteredModel:
    """Return one item of `registered-models/search`."""
    return RegisteredModel(
        item["name"],
        item.get("description") or None,
        moment(item.get("creation_timestamp")),
        moment(item.get("last_updated_timestamp")),
        pairs(item.get("tags")),
        {entry["alias"]: str(entry["version"]) for entry in item.get("aliases") or ()},
    )


def is_prompt(tags: Mapping[str, str]) -> bool:
    """Return whether a registered model, or a version, is a prompt by its tags."""
    return tags.get(PROMPT_TAG, "").lower() == "true"


class Aliases:
    """The registered models' maps turned around: version to aliases, sorted; and their names."""

    def __init__(self, models: Collection[RegisteredModel], prompts: Collection[str] = ()) -> None:
        """Take the aliases of all registered models, and the names of `prompts` beside them."""
        self._aliases: dict[tuple[str, str], tuple[str, ...]] = {}
        self._names = {*prompts, *(model.name for model in models)}
        self._collated = {_collated(name): name for name in self._names}
        for model in models:
            for alias, version in sorted(model.aliases.items()):
                self._aliases[model.name, version] = (*self.of(model.name, version), alias)

    def model_name(self, name: str) -> str:
        """Return the name of a version's model as that model spells it.

        MySQL and SQL Server take versions under any spelling that their collation calls equal.
        """
        return name if name in self._names else self._collated.get(_collated(name), name)

    def of(self, name: str, version: str) -> tuple[str, ...]:
        """Return the aliases of one version."""
        return self._aliases.get((name, version), ())


def _collated(name: str) -> str:
    """Return what names have in common that MySQL's default collation calls equal."""
    letters = normalize("NFKD", name.casefold())
    return "".join(letter for letter in letters if not combining(letter)).rstrip(" ")


def model_version(item: Json, aliases: Aliases) -> ModelVersion:
    """Return one item of `model-versions/search`, with the aliases of its registered model."""
    name, number = aliases.model_name(item["name"]), str(item["version"])
    source = item.get("source") or None
    return ModelVersion(
        name=name,
        version=number,
        run_id=item.get("run_id") or None,
        source=source,
        model_id=item.get("model_id") or model_id_of(source),
        stage=stage(item.get("current_stage")),
        status=item.get("status") or None,
        description=item.get("description") or None,
        user_id=item.get("user_id") or None,
        created_at_ms=moment(item.get("creation_timestamp")),
        last_updated_at_ms=moment(item.get("last_updated_timestamp")),
        aliases=aliases.of(name, number),
        tags=pairs(item.get("tags")),
    )


def logged_model(item: Json) -> LoggedModel:
    """Return one item of `logged-models/search`."""
    info = item["info"]
    data = item.get("data") or {}
    of_metrics = data.get("metrics") or ()
    return LoggedModel(
        model_id=info["model_id"],
        experiment_id=str(info["experiment_id"]),
        name=info.get("name") or "",
        status=model_status(info.get("status") or "UNSPECIFIED"),
        source_run_id=info.get("source_run_id") or None,
        model_type=info.get("model_type") or None,
        artifact_uri=info.get("artifact_uri") or None,
        created_at_ms=moment(info.get("creation_timestamp_ms")),
        last_updated_at_ms=moment(info.get("last_updated_timestamp_ms")),
        params=pairs(data.get("params")),
        tags=pairs(info.get("tags")),
        metrics=metrics(of_metrics),
        metric_runs=metric_runs(metric.get("run_id") for metric in of_metrics),
    )


def metric_runs(run_ids: Iterable[str | None]) -> tuple[str, ...]:
    """Return the runs that logged metrics of a logged model, each once."""
    return tuple(sorted({run_id_ for run_id_ in run_ids if run_id_}))


def pairs(entries: Sequence[Json] | None) -> dict[str, str]:
    """Return a list of `{key, value}` as a mapping; a value left out is an empty text."""
    if not entries:
        return {}
    try:
        return {entry["key"]: entry["value"] for entry in entries}
    except KeyError:
        return {entry["key"]: entry.get("value", "") for entry in entries}


def metrics(entries: Sequence[Json] | None) -> tuple[Metric, ...]:
    """Return metrics, sorted by name as the stores keep no order of their own."""
    if not entries:
        return ()
    # What `Metric(...)` and `moment` come down to, without their calls in Python.
    records = [
        _NEW(
            Metric,
            (
                entry["key"],
                # float() reads "NaN", "Infinity" and "-Infinity" too.
                float(entry.get("value", 0.0)),
                int(at) if (at := entry.get("timestamp")) else None,
                int(entry.get("step") or 0),
                entry.get("model_id") or None,
                entry.get("dataset_name") or None,
                entry.get("dataset_digest") or None,
            ),
        )
        for entry in entries
    ]
    # Most runs have each name once, and texts are compared faster than tuples are made.
    named_once = len(set(map(_NAME, records))) == len(records)
    records.sort(key=_NAME if named_once else metric_order)
    return tuple(records)


def metric_order(metric: Metric) -> tuple[str, str, str, str, int, int]:
    """Return what metrics are sorted by: name, model, dataset, step, time."""
    return (
        metric.key,
        metric.model_id or "",
        metric.dataset_name or "",
        metric.dataset_digest or "",
        metric.step or 0,
        metric.timestamp_ms or 0,
    )


def dataset_order(dataset: DatasetInput) -> tuple[str, str]:
    """Return what datasets are sorted by: name and digest."""
    return dataset.name, dataset.digest


def output_order(output: ModelOutput) -> tuple[int, str]:
    """Return what logged models of a run are sorted by: step, then id."""
    return output.step or 0, output.model_id


def _datasets(entries: Sequence[Json]) -> tuple[DatasetInput, ...]:
    datasets = []
    for entry in entries:
        dataset = entry["dataset"]
        datasets.append(
            DatasetInput(
                dataset["name"],
                dataset.get("digest") or "",
                dataset.get("source_type") or "",
                dataset.get("source") or "",
                dataset.get("schema") or None,
                dataset.get("profile") or None,
                pairs(entry.get("tags")),
            )
        )
    return tuple(sorted(datasets, key=dataset_order))


def model_inputs(entries: Iterable[Json]) -> tuple[str, ...]:
    """Return the ids of the logged models that a run took in, sorted."""
    return tuple(sorted(entry["model_id"] for entry in entries))


def model_outputs(entries: Iterable[Json]) -> tuple[ModelOutput, ...]:
    """Return the logged models that a run made, by step."""
    outputs = [ModelOutput(entry["model_id"], int(entry.get("step") or 0)) for entry in entries]
    return tuple(sorted(outputs, key=output_order))


def moment(value: Any) -> int | None:
    """Return epoch milliseconds; None where there are none, which protocol buffers spell 0."""
    return int(value) if value else None


def stage(value: str | None) -> str | None:
    """Return a version's stage; MLflow's stage `None` and an absent one are none."""
    return None if value in {None, "", "None"} else value


def model_status(value: str) -> str:
    """Return a logged model's status as MlflowClient spells it: READY, FAILED, PENDING."""
    bare = value.removeprefix(_STATUS_PREFIX)
    return _MODEL_STATUS.get(bare, bare)


def model_id_of(source: str | None) -> str | None:
    """Return the logged model that a version was made from, by its source `models:/m-…`."""
    match = _MODEL_SOURCE.fullmatch(source or "")
    return match[1] if match else None
