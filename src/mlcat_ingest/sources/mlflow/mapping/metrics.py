"""Maps parameters to hyperparameters, and metrics of runs and logged models to training metrics."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import isnan, nan
from typing import Any, Final, NamedTuple

from mlcat_ingest.metadata.reserved import OWN_PREFIX
from mlcat_ingest.sources.mlflow.mapping.properties import PropertiesBuilder, source_name
from mlcat_ingest.sources.mlflow.mapping.text import (
    MAX_INT64,
    Truncator,
    are_unchanged,
    number_texts,
)
from mlcat_ingest.sources.mlflow.values.joined import JoinedRun
from mlcat_ingest.sources.mlflow.values.records import LoggedModel, Metric, Run

Entry = dict[str, Any]

SYSTEM_PREFIX: Final = "system/"
"""Metrics that MLflow's own monitor logs: CPU, memory, network."""


class _ModelMetric(NamedTuple):
    """The key of one metric of a logged model."""

    model_id: str
    key: str
    dataset: str
    digest: str


def training_metrics(record: JoinedRun, custom: PropertiesBuilder) -> list[Entry]:
    """Return the `trainingMetrics` of a run, sorted by name.

    A metric of a logged model is called `<metric>` where the run made one model and
    `<model>/<metric>` where it made several; one that was logged on several datasets gets the
    prefix `<dataset>/`.
    """
    run, system_metrics = record.run, record.scope.options.system_metrics
    models = {key: _with_nan(model, run, custom) for key, model in record.models.items()}
    metrics: Sequence[Metric] = run.metrics
    named = {metric.key: metric for metric in metrics}
    if not system_metrics and SYSTEM_PREFIX in "\n".join(named):
        metrics = [metric for metric in metrics if not metric.key.startswith(SYSTEM_PREFIX)]
        if len(metrics) < len(run.metrics):
            count = len(run.metrics) - len(metrics)
            custom.truncator.note("system_metrics_left_out", str(count))
        named = {metric.key: metric for metric in metrics}
    of_models = models or any(metric.model_id is not None for metric in metrics)
    if of_models or len(named) < len(metrics):
        outputs = [output.model_id for output in run.model_outputs]
        named = _unique_names(metrics, outputs, models, system=system_metrics)
    return _entries(named, custom)


def model_metrics(
    model: LoggedModel, custom: PropertiesBuilder, run: Run | None = None
) -> list[Entry]:
    """Return the `trainingMetrics` of one logged model, sorted by name; `run` made it, if known."""
    if run is not None:
        model = _with_nan(model, run, custom)
    named = _unique_names((), [model.model_id], {model.model_id: model}, system=False)
    return _entries(named, custom)


def _with_nan(model: LoggedModel, run: Run, custom: PropertiesBuilder) -> LoggedModel:
    """Return a logged model with NaN where its run has it: MLflow's databases store 0 there."""
    zeros = [metric for metric in model.metrics if metric.value == 0]
    if not zeros:
        return model
    logged = {
        (metric.key, metric.step, metric.timestamp_ms)
        for metric in run.metrics
        if isnan(metric.value)
    }
    lost = {metric for metric in zeros if (metric.key, metric.step, metric.timestamp_ms) in logged}
    if not lost:
        return model
    keys = ", ".join(sorted({metric.key for metric in lost}))
    custom.truncator.note("model_metric_nan", f"{keys} of {model.model_id}")
    metrics = [metric._replace(value=nan) if metric in lost else metric for metric in model.metrics]
    return replace(model, metrics=tuple(metrics))


def _entries(named: Mapping[str, Metric], custom: PropertiesBuilder) -> list[Entry]:
    truncator = custom.truncator
    names = custom.limit_entries("metrics", sorted(named), truncator.limits.metrics)
    chosen = [named[name] for name in names]
    texts = number_texts([metric.value for metric in chosen])
    entries: list[Entry] = []
    # Most metrics of a run are of one time and step: each is looked at once.
    usable_ms: int | None = MAX_INT64
    last_step: int | None = None
    step_text = ""
    for name, text, metric in zip(fit_names(names, truncator), texts, chosen, strict=True):
        _, _, at_ms, step, _, dataset, _ = metric
        entry: Entry = {"name": name, "value": text}
        if at_ms == usable_ms or truncator.time_ms(at_ms, "metric") is not None:
            entry["createdAt"] = usable_ms = at_ms
        if dataset:
            entry["description"] = truncator.text(_description(metric), "dataset of a metric")
        elif step is not None:
            if step != last_step:
                last_step, step_text = step, f"step {step}"
            entry["description"] = step_text
        entries.append(entry)
    return entries


def _description(metric: Metric) -> str:
    dataset = f"dataset {metric.dataset_name}"
    if metric.dataset_digest:
        dataset += f" ({metric.dataset_digest})"
    return dataset if metric.step is None else f"step {metric.step}, {dataset}"


def _unique_names(
    metrics: Sequence[Metric],
    outputs: Sequence[str],
    models: Mapping[str, LoggedModel],
    *,
    system: bool,
) -> dict[str, Metric]:
    """Return a run's own metrics and those of its models under names of their own."""
    result: dict[str, Metric] = {}
    of_models: dict[_ModelMetric, Metric] = {}
    logged = (
        (model_id, metric)
        for model_id in outputs
        if model_id in models
        for metric in models[model_id].metrics
        if system or not metric.key.startswith(SYSTEM_PREFIX)
    )
    for model_id, metric in (*((metric.model_id, metric) for metric in metrics), *logged):
        if model_id is None:
            result[metric.key] = _later(result.get(metric.key, metric), metric)
        else:
            dataset, digest = metric.dataset_name or "", metric.dataset_digest or ""
            key = _ModelMetric(model_id, metric.key, dataset, digest)
            of_models[key] = _later(of_models.get(key, metric), metric)
    labels = _labels({*outputs, *(key.model_id for key in of_models)}, models)
    datasets = Counter((key.model_id, key.key) for key in of_models)
    for key in sorted(of_models):
        name = key.key
        if datasets[key.model_id, key.key] > 1 and key.dataset:
            name = f"{key.dataset}/{name}"
        if len(labels) > 1:
            name = f"{labels[key.model_id]}/{name}"
        elif name == key.key and name in result:
            # The same metric twice: of two logged at one time the model's tells its dataset.
            result[name] = _later(result[name], of_models[key])
            continue
        if name in result:
            name = free_name(f"{name} ({key.digest or key.model_id})", result)
        result[name] = of_models[key]
    return result


def _later(metric: Metric, other: Metric) -> Metric:
    """Return the metric logged last, `other` if both were logged at one time."""
    return metric if (metric.timestamp_ms or 0) > (other.timestamp_ms or 0) else other


def _labels(model_ids: set[str], models: Mapping[str, LoggedModel]) -> dict[str, str]:
    """Return the label of each model: its name, or its id where names are not unique."""
    names = {key: (models[key].name if key in models else "") or key for key in model_ids}
    counts = Counter(names.values())
    return {key: name if counts[name] == 1 else key for key, name in names.items()}


def hyper_params(params: Mapping[str, str], custom: PropertiesBuilder) -> list[Entry]:
    """Return the `hyperParams` of a run, sorted by name."""
    truncator, limits = custom.truncator, custom.truncator.limits
    names = custom.limit_entries("parameters", sorted(params), limits.params)
    values = [params[name] for name in names]
    if not are_unchanged(values, limits.value_chars):
        width = limits.name_chars
        values = [truncator.text(params[name], f"parameter {name[:width]!r}") for name in names]
    return [
        {"name": name, "value": value}
        for name, value in zip(fit_names(names, truncator), values, strict=True)
    ]


def fit_names(names: Sequence[str], truncator: Truncator) -> Sequence[str]:
    """Return names of entries that fit, are unique and are none of our own `mlcat.*`."""
    if are_unchanged(names, truncator.limits.name_chars) and OWN_PREFIX not in "".join(names):
        return names
    unique: dict[str, None] = {}
    for name in names:
        escaped = source_name(name)
        # A parameter shares no name space with our custom properties, only the `mlcat.` keys.
        fit = truncator.name(escaped if escaped.startswith("source.") else name, "name of an entry")
        unique[free_name(fit, unique)] = None
    return list(unique)


def free_name(name: str, taken: Collection[str]) -> str:
    """Return `name`, or `name (2)` and so on where it is taken."""
    free, number = name, 2
    while free in taken:
        free = f"{name} ({number})"
        number += 1
    return free
