"""Metrics of a run and of its logged models as the catalog's training metrics."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from mlcat_ingest.sources.mlflow.mapping.params import Entry, fit_names, free_name
from mlcat_ingest.sources.mlflow.mapping.properties import PropertiesBuilder
from mlcat_ingest.sources.mlflow.mapping.text import number_texts
from mlcat_ingest.sources.mlflow.values.records import LoggedModel, Metric, Run

SYSTEM_PREFIX: Final = "system/"
"""Metrics that MLflow's own monitor logs: CPU, memory, network."""


class _ModelMetric(NamedTuple):
    """What tells one metric of a logged model from another."""

    model_id: str
    key: str
    dataset: str
    digest: str


def training_metrics(
    run: Run,
    models: Mapping[str, LoggedModel],
    custom: PropertiesBuilder,
    *,
    system_metrics: bool,
) -> list[Entry]:
    """Return the `trainingMetrics` of a run, sorted by name.

    A metric of a logged model is called `<metric>` where the run made one model and
    `<model>/<metric>` where it made several; one that was logged on several datasets is told apart
    by `<dataset>/`.
    """
    metrics: Sequence[Metric] = run.metrics
    if not system_metrics:
        kept = [metric for metric in metrics if not metric.key.startswith(SYSTEM_PREFIX)]
        if len(kept) < len(metrics):
            custom.fitter.note("system_metrics_left_out", str(len(metrics) - len(kept)))
            metrics = kept
    named = {metric.key: metric for metric in metrics}
    of_models = models or any(metric.model_id is not None for metric in metrics)
    if of_models or len(named) < len(metrics):
        outputs = [output.model_id for output in run.model_outputs]
        named = _told_apart(metrics, outputs, models, system=system_metrics)
    return _entries(named, custom)


def model_metrics(model: LoggedModel, custom: PropertiesBuilder) -> list[Entry]:
    """Return the `trainingMetrics` of a logged model that stands for itself, sorted by name."""
    named = _told_apart((), [model.model_id], {model.model_id: model}, system=False)
    return _entries(named, custom)


def _entries(named: Mapping[str, Metric], custom: PropertiesBuilder) -> list[Entry]:
    fitter = custom.fitter
    names = custom.limited("metrics", sorted(named), fitter.limits.metrics)
    chosen = [named[name] for name in names]
    texts = number_texts([metric.value for metric in chosen])
    entries: list[Entry] = []
    shown: int | None = None
    said = ""
    for name, text, metric in zip(fit_names(names, fitter), texts, chosen, strict=True):
        _, _, at, step, _, dataset, _ = metric
        entry: Entry = {"name": name, "value": text}
        if fitter.time_ms(at, "metric") is not None:
            entry["createdAt"] = at
        if dataset:
            entry["description"] = fitter.text(_description(metric), "dataset of a metric")
        elif step is not None:
            if step != shown:
                # Most metrics of a run are of one step, whose text is made and held once.
                shown, said = step, f"step {step}"
            entry["description"] = said
        entries.append(entry)
    return entries


def _description(metric: Metric) -> str:
    dataset = f"dataset {metric.dataset_name}"
    if metric.dataset_digest:
        dataset += f" ({metric.dataset_digest})"
    return dataset if metric.step is None else f"step {metric.step}, {dataset}"


def _told_apart(
    metrics: Sequence[Metric],
    outputs: Sequence[str],
    models: Mapping[str, LoggedModel],
    *,
    system: bool,
) -> dict[str, Metric]:
    """Return a run's own metrics and those of its models under names of their own."""
    result: dict[str, Metric] = {}
    of_models: dict[_ModelMetric, Metric] = {}
    for model_id, metric in (
        *((metric.model_id, metric) for metric in metrics),
        *_logged(outputs, models, system=system),
    ):
        if model_id is None:
            result[metric.key] = _later(result.get(metric.key, metric), metric)
        else:
            key = _ModelMetric(
                model_id, metric.key, metric.dataset_name or "", metric.dataset_digest or ""
            )
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


def _logged(
    outputs: Sequence[str], models: Mapping[str, LoggedModel], *, system: bool
) -> Iterator[tuple[str, Metric]]:
    for model_id in outputs:
        model = models.get(model_id)
        for metric in () if model is None else model.metrics:
            if system or not metric.key.startswith(SYSTEM_PREFIX):
                yield model_id, metric


def _later(one: Metric, other: Metric) -> Metric:
    """Return the metric logged last, `other` if both were logged at one time."""
    return one if (one.timestamp_ms or 0) > (other.timestamp_ms or 0) else other


def _labels(model_ids: set[str], models: Mapping[str, LoggedModel]) -> dict[str, str]:
    """Return what to call each model: its name, or its id where names are not unique."""
    names = {key: (models[key].name if key in models else "") or key for key in model_ids}
    counts = Counter(names.values())
    return {key: name if counts[name] == 1 else key for key, name in names.items()}
