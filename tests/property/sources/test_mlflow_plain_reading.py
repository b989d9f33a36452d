"""The bytes of a run's properties, beside a plain reading of the rules: one text after another."""

import base64
import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.metadata.aspects import ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.pipeline.merge.entity import merge_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.sources.mlflow.mapping import map_record
from mlcat_ingest.sources.mlflow.mapping.properties import OWN_KEYS
from mlcat_ingest.sources.mlflow.values.joined import JoinedRun
from mlcat_ingest.sources.mlflow.values.records import Experiment, Metric, Run
from support.mlflow_records import a_scope

NAME_CHARS, VALUE_CHARS, ENTRIES = 30, 40, 4
LIMITS = {
    "name_chars": NAME_CHARS,
    "value_chars": VALUE_CHARS,
    "params": ENTRIES,
    "metrics": ENTRIES,
    "tags": ENTRIES,
}
SCOPE = a_scope(limits=LIMITS)
EXPERIMENT = Experiment("1", "churn")

# Without the characters of addresses, whose credentials have tests of their own.
ANY = st.characters(exclude_characters="/@%?#&;")
TEXT = st.text(ANY, max_size=8) | st.text(ANY, min_size=25, max_size=60)
NAME = TEXT | st.sampled_from(
    [
        *("lr", "depth", "a" * 31, "a" * 32, "mlflow.status", "tag.mlflow.status"),
        *("mlcat.source", "source.mlcat.source", "system/cpu", "mlflow.note.content"),
        *("mlflow.runName", "estimator_name", "tag.lr", "mlflow.left_out"),
    ]
)
TIME = st.none() | st.integers(-(2**64), 2**64) | st.just(1_760_000_000_000)
VALUE = st.floats() | st.sampled_from([1.7976931348623157e308, 1e-5, 1e16, -0.0, 0.1])
STEP = st.none() | st.integers()
DATASET = st.none() | st.sampled_from(["train", "a" * 31, 'of "2025"'])
METRICS = st.dictionaries(NAME, st.tuples(VALUE, TIME, STEP, DATASET), max_size=6)
# Most runs log all metrics at one time and step.
AT_ONCE = st.builds(
    lambda metrics, rest: {name: (value, *rest) for name, (value, *_) in metrics.items()},
    METRICS,
    st.tuples(TIME, STEP, DATASET),
)
# Quotes and commas, which part two texts in JSON.
QUOTED = st.text('",\\x', max_size=4)
TEXTS = st.dictionaries(NAME, TEXT | QUOTED, max_size=6)
RUN = st.builds(
    lambda name, params, tags, metrics, status: Run(
        "0" * 32,
        "1",
        name,
        "ann",
        status,
        1_760_000_000_000,
        1_760_000_001_500,
        "s3:b",
        params=params,
        metrics=tuple(
            Metric(key, value, time, step, None, dataset, dataset and dataset[:2])
            for key, (value, time, step, dataset) in metrics.items()
        ),
        tags=tags,
    ),
    st.none() | TEXT,
    TEXTS,
    TEXTS,
    METRICS | AT_ONCE,
    st.sampled_from(["FINISHED", "FAILED"]),
)


def clean(text: str) -> str:
    controls = {*range(9), 11, 12, *range(14, 32), *range(127, 160), *range(0xD800, 0xE000)}
    return "".join("\ufffd" if ord(one) in controls else one for one in text)


def fit(text: str, most: int) -> str:
    more = f"… [truncated, {len(text)} characters]" if len(text) > most else ""
    return clean(text)[:most] + more


def escaped(name: str) -> str:
    bare = name
    while bare.startswith("source."):
        bare = bare.removeprefix("source.")
    if bare.startswith("mlcat."):
        return f"source.{name}"
    bare = name
    while bare.startswith("tag."):
        bare = bare.removeprefix("tag.")
    return f"tag.{name}" if bare in OWN_KEYS else name


def entry_names(names: Collection[str]) -> list[str]:
    unique: list[str] = []
    for name in names:
        spelled = escaped(name) if escaped(name).startswith("source.") else name
        free = first = fit(spelled, NAME_CHARS)
        number = 1
        while free in unique:
            number += 1
            free = f"{first} ({number})"
        unique.append(free)
    return unique


def number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if abs(value) >= 1.7976931348623157e308:
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def custom_properties(run: Run, metrics: Mapping[str, Metric]) -> dict[str, str]:
    custom = {
        "mlcat.source": SCOPE.source_key,
        "mlflow.run_id": run.run_id,
        "mlflow.experiment_id": "1",
        "mlflow.status": str(run.status),
        "mlflow.artifact_uri": "s3:b",
        "mlflow.duration_ms": "1500",
    }
    counts = {"tags": len(run.tags), "parameters": len(run.params), "metrics": len(metrics)}
    left_out = [f"{n - ENTRIES} of {n} {what}" for what, n in counts.items() if n > ENTRIES]
    if len(run.tags) > ENTRIES:
        custom["mlflow.left_out"] = ", ".join(left_out)
    for name in sorted(run.tags)[:ENTRIES]:
        same_name = run.name is None or run.name == run.tags.get("mlflow.runName")
        if name == "mlflow.note.content" or (name == "mlflow.runName" and same_name):
            continue
        key = fit(escaped(name), NAME_CHARS)
        while key in custom:
            key = f"tag.{key}"
        custom[key] = fit(run.tags[name], VALUE_CHARS)
    if left_out:
        custom["mlflow.left_out"] = ", ".join(left_out)
    return custom


def plain_reading(run: Run) -> dict[str, Any]:
    metrics = {one.key: one for one in run.metrics if not one.key.startswith("system/")}
    params, kept = sorted(run.params)[:ENTRIES], sorted(metrics)[:ENTRIES]
    entries = []
    for key, name in zip(kept, entry_names(kept), strict=True):
        metric = metrics[key]
        entry: dict[str, Any] = {"name": name, "value": number(metric.value)}
        if metric.timestamp_ms is not None and abs(metric.timestamp_ms) < 2**63:
            entry["createdAt"] = metric.timestamp_ms
        about = [] if metric.step is None else [f"step {metric.step}"]
        if metric.dataset_name:
            about.append(f"dataset {metric.dataset_name} ({metric.dataset_digest})")
        if about:
            entry["description"] = ", ".join(about)
        if metric.dataset_name:
            entry["description"] = fit(entry["description"], VALUE_CHARS)
        entries.append(entry)
    shown = sorted(
        f"{name}:{value}"
        for name, value in run.tags.items()
        if not name.startswith(("mlflow.", "mlcat.")) and len(name) + len(value) < 100
    )
    name = run.name or run.tags.get("mlflow.runName") or "churn 00000000"
    note, estimator = run.tags.get("mlflow.note.content"), run.tags.get("estimator_name")
    aspect = {
        "customProperties": custom_properties(run, metrics),
        "name": fit(name, VALUE_CHARS),
        "description": fit(note, 32_000) if note else None,
        "date": 1_760_000_000_000,
        "created": {"time": 1_760_000_000_000, "actor": "urn:li:corpuser:ann"},
        "lastModified": {"time": 1_760_000_001_500},
        "externalUrl": f"http://mlflow:5000/#/experiments/1/runs/{run.run_id}",
        "type": fit(estimator, VALUE_CHARS) if estimator else None,
        "hyperParams": [
            {"name": name, "value": fit(run.params[key], VALUE_CHARS)}
            for key, name in zip(params, entry_names(params), strict=True)
        ],
        "trainingMetrics": entries,
        "tags": [f"status:{run.status}", *map(clean, shown[:20])],
        "groups": ["urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,churn,PROD)"],
    }
    return {field: value for field, value in aspect.items() if value is not None}


def digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()


def base_parts(aspect: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of the base that are of the properties, by field."""
    for field, value in sorted(aspect.items()):
        name = f"{ML_MODEL_PROPERTIES}.{field}".encode()
        label = base64.urlsafe_b64encode(hashlib.sha256(name).digest()).decode()[:4]
        if field == "customProperties":
            entries = [digest(key)[:6] for key in value if not key.startswith("mlcat.")]
        elif isinstance(value, list):
            names = (entry["name"] if isinstance(entry, dict) else entry for entry in value)
            entries = [digest(name)[:6] for name in dict.fromkeys(names)]
        else:
            entries = [digest(value)[:6]]
        if entries:
            yield label + "".join(sorted(entries))


@given(RUN)
def test_the_bytes_of_a_run_are_those_of_a_plain_reading_of_the_rules(run: Run) -> None:
    # Twice with the same names: what is remembered of them holds for all values.
    params = {key: value[::-1] for key, value in run.params.items()}
    metrics = tuple(metric._replace(value=metric.value / 3) for metric in run.metrics)
    for one in (run, replace(run, params=params, metrics=metrics)):
        (model,) = map_record(JoinedRun(SCOPE, one, EXPERIMENT))
        properties = merge_entity(model, None, MergeRules(Writer("daily"))).proposals[-1]
        assert properties.aspect_name == ML_MODEL_PROPERTIES
        sent = properties.wire()["aspect"]["value"]
        expected = plain_reading(one)
        parts = ":".join(base_parts(expected))
        base = json.loads(sent)["customProperties"]["mlcat.applied.daily"]
        assert parts in base
        expected["customProperties"]["mlcat.applied.daily"] = base
        assert sent == json.dumps(expected, separators=(",", ":"))
