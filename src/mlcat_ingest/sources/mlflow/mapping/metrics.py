"""Maps parameters to hyperparameters, and metrics of runs and logged models to training metrics."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import isnan, nan
from operator import lt
from typing import Any, Final, NamedTuple, TypeVar

from mlcat_ingest.metadata.mlflow_keys import OF_LOGGED_MODEL
from mlcat_ingest.metadata.reserved import OWN_PREFIX
from mlcat_ingest.sources.mlflow.mapping.properties import PropertiesBuilder, source_name
from mlcat_ingest.sources.mlflow.mapping.text import Truncator, are_unchanged, number_texts
from mlcat_ingest.sources.mlflow.values.joined import JoinedRun
from mlcat_ingest.sources.mlflow.values.records import LoggedModel, Metric, ModelOutput, Run

Entry = dict[str, Any]
_K = TypeVar("_K")

SYSTEM_PREFIX: Final = "system/"
"""Metrics that MLflow's own monitor logs: CPU, memory, network."""


class _ModelMetric(NamedTuple):
    """The key of one metric of a logged model."""

    model_id: str
    key: str
    dataset: str
    digest: str


def training_metrics(record: JoinedRun, custom: PropertiesBuilder) -> Sequence[Entry]:
    """Return the `trainingMetrics` of a run, sorted by name: its own have MLflow's values.

    A metric of a logged model is called `<metric>` where the run made one model and has none of
    that name, and `<model>/<metric>` where it made several, another run logged the metric, or the
    run has another value of the same step; one that was logged on several datasets gets the prefix
    `<dataset>/`. The description of one that this run did not log, or not by that name, tells the
    logged model: the run has no curve of it.
    """
    run, system_metrics = record.run, record.scope.options.system_metrics
    models = {key: _as_logged(model, run, custom) for key, model in record.models.items()}
    metrics = run.metrics
    if models or not _are_entries(metrics):
        if not system_metrics:
            metrics = [metric for metric in metrics if not metric.key.startswith(SYSTEM_PREFIX)]
            if len(metrics) < len(run.metrics):
                count = len(run.metrics) - len(metrics)
                custom.truncator.note("system_metrics_left_out", str(count))
        metrics = _unique_names(run, metrics, models, system=system_metrics)
    return _entries(metrics, custom)


def _are_entries(metrics: Sequence[Metric]) -> bool:
    """Return whether metrics are sorted, each of a name of its own, and a user's and no model's."""
    names = [metric.key for metric in metrics if not metric.model_id]
    is_sorted = all(map(lt, names, names[1:])) and SYSTEM_PREFIX not in "\n".join(names)
    return is_sorted and len(names) == len(metrics)


def model_metrics(
    model: LoggedModel, custom: PropertiesBuilder, run: Run | None = None
) -> Sequence[Entry]:
    """Return the `trainingMetrics` of one logged model, sorted by name; `run` made it, if known."""
    model = _as_logged(model, run, custom)
    metrics = _unique_names(None, (), {model.model_id: model}, system=False)
    return _entries(metrics, custom)


def _as_logged(model: LoggedModel, run: Run | None, custom: PropertiesBuilder) -> LoggedModel:
    """Return a logged model with its run's last values, and NaN where MLflow's databases have 0."""
    if model.copied:
        copied = f"{', '.join(model.copied)} of {model.model_id}"
        custom.truncator.note("model_metric_copied", copied)
    if run is None:
        return model
    model = _with_last_values(model, run)
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


def _with_last_values(model: LoggedModel, run: Run) -> LoggedModel:
    """Return the only model of a run, logged at no step, with what the run had measured last then.

    MLflow copies to a new model the metrics of the step that it is logged at. That is 0 where none
    is given: a model that is logged after its training gets the values of the first epoch, or none.

    Source: `Model.log` of MLflow 3.17.
    """
    until_ms = model.created_at_ms
    if until_ms is None or {*run.model_outputs} != {ModelOutput(model.model_id, 0)}:
        return model
    copied: list[Metric] = []
    own: list[Metric] = []
    for metric in model.metrics:
        is_early = not metric.step and (metric.timestamp_ms or 0) <= until_ms
        (copied if is_early and metric.run_id in {None, run.run_id} else own).append(metric)
    names = {metric.key for metric in own}
    last = {
        metric.key: metric
        for metric in run.metrics
        if metric.step and (metric.timestamp_ms or 0) <= until_ms
        if metric.key not in names and metric.model_id in {None, model.model_id}
    }
    copied = [metric for metric in copied if metric.key not in last]
    return replace(model, metrics=(*own, *copied, *last.values())) if last else model


def _entries(metrics: Sequence[Metric], custom: PropertiesBuilder) -> list[Entry]:
    """Return the entries of metrics, in the order of their unique names."""
    truncator = custom.truncator
    metrics = custom.limit_entries("metrics", metrics, truncator.limits.metrics)
    names = _fit_names([metric.key for metric in metrics], truncator)
    texts = number_texts([metric.value for metric in metrics])
    entries = []
    for name, value, metric in zip(names, texts, metrics, strict=True):
        _, _, time_ms, step, model_id, dataset, digest, _ = metric
        entry: Entry = {"name": name, "value": value}
        if time_ms is not None and truncator.time_ms(time_ms, "metric") is not None:
            entry["createdAt"] = time_ms
        text = "" if step is None else f"step {step}"
        if model_id:
            text = f"{text}{text and ', '}{OF_LOGGED_MODEL}{model_id}"
        if dataset:
            named = f"dataset {dataset} ({digest})" if digest else f"dataset {dataset}"
            text = truncator.text(f"{text}{text and ', '}{named}", "dataset of a metric")
        if text:
            entry["description"] = text
        entries.append(entry)
    return entries


def _unique_names(
    run: Run | None, metrics: Sequence[Metric], models: Mapping[str, LoggedModel], *, system: bool
) -> list[Metric]:
    """Return a run's own metrics and those of its models under names of their own, sorted.

    Only those have a `model_id` that the run has no curve of; without one, it is the models'.
    """
    own = _last_of((metric.key, metric) for metric in metrics)
    if run is None:
        outputs, run_ids = [*models], {None, *(one.source_run_id for one in models.values())}
    else:
        outputs, run_ids = [one.model_id for one in run.model_outputs], {None, run.run_id}
    logged = [
        (
            _ModelMetric(
                model_id, metric.key, metric.dataset_name or "", metric.dataset_digest or ""
            ),
            metric,
        )
        for model_id, values in (
            *((metric.model_id, [metric]) for metric in metrics if metric.model_id),
            *((model_id, models[model_id].metrics) for model_id in outputs if model_id in models),
        )
        for metric in values
        if system or not metric.key.startswith(SYSTEM_PREFIX)
    ]
    of_models = _last_of(logged)
    labels = _labels({*outputs, *(key.model_id for key in of_models)}, models)
    datasets = Counter((key.model_id, key.key) for key in of_models)
    result, without_curve = dict(own), dict[str, str]()
    for key, metric in sorted(of_models.items()):
        is_apart = datasets[key.model_id, key.key] > 1 and key.dataset
        name = f"{key.dataset}/{key.key}" if is_apart else key.key
        of_run = own.get(name) if len(labels) == 1 and not is_apart else None
        if of_run is not None and metric.recency == of_run.recency:
            result[name] = metric  # the model's tells its dataset
            continue
        is_earlier = of_run is not None and (metric.step or 0) < (of_run.step or 0)
        if is_earlier and metric.run_id in run_ids:
            continue
        if len(labels) > 1 or of_run is not None:
            name = f"{labels[key.model_id]}/{name}"
        if name in result:
            name = free_name(f"{name} ({key.digest or key.model_id})", result)
        result[name] = metric
        if name != key.key or metric.run_id not in run_ids:
            without_curve[name] = key.model_id
    return [_named(result[name], name, without_curve.get(name)) for name in sorted(result)]


def _named(metric: Metric, name: str, model_id: str | None) -> Metric:
    if (metric.key, metric.model_id) == (name, model_id):
        return metric
    return metric._replace(key=name, model_id=model_id)


def _last_of(metrics: Iterable[tuple[_K, Metric]]) -> dict[_K, Metric]:
    """Return of each name the metric that MLflow calls the last."""
    last: dict[_K, Metric] = {}
    for key, metric in metrics:
        if key not in last or metric.recency >= last[key].recency:
            last[key] = metric
    return last


def _labels(model_ids: set[str], models: Mapping[str, LoggedModel]) -> dict[str, str]:
    """Return the label of each model: its name, or its id where names are not unique."""
    names = {key: (models[key].name if key in models else "") or key for key in model_ids}
    counts = Counter(names.values())
    return {key: name if counts[name] == 1 else key for key, name in names.items()}


def hyper_params(params: Mapping[str, str], custom: PropertiesBuilder) -> Sequence[Entry]:
    """Return the `hyperParams` of a run, sorted by name."""
    truncator, limits = custom.truncator, custom.truncator.limits
    names = custom.limit_entries("parameters", sorted(params), limits.params)
    values = [params[name] for name in names]
    if not are_unchanged(values, limits.value_chars):
        values = [truncator.text(params[name], "parameter", name=name) for name in names]
    fit = _fit_names(names, truncator)
    return [{"name": name, "value": value} for name, value in zip(fit, values, strict=True)]


def _fit_names(names: Sequence[str], truncator: Truncator) -> Sequence[str]:
    """Return names of entries that fit, are unique and are none of our own `mlcat.*`."""
    if are_unchanged(names, truncator.limits.name_chars, OWN_PREFIX):
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
