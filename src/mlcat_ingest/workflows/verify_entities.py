"""Comparison of single entities: what MLflow says against what the catalog holds; pure.

The rules of names, limits and cuts stand here a second time, apart from the mapping of the MLflow
source, so that a fault there is found here.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from mlcat_ingest.client.base import StoredEntity
from mlcat_ingest.core.redaction import redact_urls
from mlcat_ingest.core.text import truncation
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.reserved import OWN_PREFIX, SOURCE_KEY
from mlcat_ingest.sources.mlflow.config import RunsConfig
from mlcat_ingest.sources.mlflow.values.joined import LIMITS
from mlcat_ingest.sources.mlflow.values.records import (
    HISTORY_TAG,
    PARENT_TAG,
    REPO_TAGS,
    DatasetInput,
    Metric,
    PropertyKey,
    Run,
    json_or_none,
)
from mlcat_ingest.workflows.verify_result import Discrepancy, Kind, Outcome, VerifyResult

CUSTOM: Final = "customProperties"
SYSTEM_METRICS: Final = "system/"
"""Beginning of the names of metrics that MLflow's own monitor logs."""

MAX_CUSTOM_PROPERTIES: Final = 1_000
"""Custom properties of one entity that are written, those of others among them."""

_OWN_KEYS: Final = frozenset(key.value for key in PropertyKey)
_UNFIT: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_CUT: Final = re.compile(r"… \[truncated, \d+ characters\]\Z")
_LEAST_KEPT: Final = 40
"""Characters that are kept of the longest text in the largest record."""
_MAX_DOUBLE: Final = 1.7976931348623157e308
"""MLflow's SQL stores write it in place of infinity."""


def option_against(
    run: Run, chosen: RunsConfig, since_ms: int | None, *, registered: bool
) -> str | None:
    """Return the option of the recipe that leaves a run out, None where it is wanted.

    `since_ms` is the time that `runs.since` means; `registered` says if a version was made from
    the run.
    """
    if since_ms is not None and (run.start_time_ms or 0) < since_ms:
        return "runs.since"
    if chosen.statuses and run.status not in chosen.statuses:
        return "runs.statuses"
    if registered:
        return None
    if chosen.children != "include" and run.tags.get(PARENT_TAG):
        return "runs.children"
    has_model = bool(run.model_outputs) or HISTORY_TAG in run.tags
    if chosen.select == "registered" or (chosen.select == "with_model" and not has_model):
        return "runs.select"
    return None


class EntityComparison:
    """One entity of the catalog, which each method compares with something that MLflow says."""

    def __init__(self, result: VerifyResult, urn: str, aspect: str, stored: StoredEntity) -> None:
        """Compare what is `stored` of `urn`, whose properties aspect is `aspect`."""
        self.urn = urn
        self._result = result
        self._aspect = aspect
        self._is_there = aspect in stored
        self.properties: Mapping[str, Any] = stored[aspect].value if self._is_there else {}
        status = stored[STATUS].value if STATUS in stored else {}
        self._is_removed = status.get("removed") is True

    @property
    def custom(self) -> Mapping[str, Any]:
        """The stored custom properties."""
        return self.properties.get(CUSTOM) or {}

    def is_live(self, kind: Kind, name: str) -> bool:
        """Return whether the entity is there; where it is not, that is the discrepancy."""
        self._result.compared[kind] += 1
        if not self._is_there:
            self.report("missing", kind, self._aspect, name, None)
        elif self._is_removed:
            self.report("missing", kind, f"{STATUS}.removed", "false", "true")
        elif SOURCE_KEY in self.custom and kind != "process instance":
            self._result.searchable += 1
        return self._is_there and not self._is_removed

    def is_hidden(self, kind: Kind) -> bool:
        """Return whether the entity is absent or removed, as what is in MLflow's trash should."""
        self._result.leave_out(kind, "in MLflow's trash")
        return not self._is_there or self._is_removed

    def report(
        self, outcome: Outcome, kind: Kind, field: str, expected: str | None, found: str | None
    ) -> None:
        """Add a discrepancy."""
        self._result.add(Discrepancy(outcome, kind, self.urn, field, expected, found))

    def params(self, params: Mapping[str, str]) -> None:
        """Compare parameters."""
        names = self._within_limit("parameter", params, LIMITS.params)
        held = _by_name(self.properties.get("hyperParams"))
        for name, written in zip(names, _entry_names(names), strict=True):
            self._text("parameter", f"hyperParams[{written}]", params[name], held.get(written))

    def metrics(
        self, metrics: Sequence[Metric], of_models: Sequence[Metric], *, system: bool
    ) -> None:
        """Compare the last values of a run's metrics, and those of its logged models.

        A metric of a model may have the name of its model or dataset before its own, or an id
        behind it.
        """
        of_models = [one for one in of_models if system or not _is_system(one)]
        values: dict[str, set[float]] = {}
        for metric in metrics:
            if system or not _is_system(metric):
                values.setdefault(metric.key, set()).add(metric.value)
            else:
                self._result.leave_out("metric", f"called {SYSTEM_METRICS}…")
        names = self._within_limit("metric", values, LIMITS.metrics)
        held = _by_name(self.properties.get("trainingMetrics"))
        last = _last_values(of_models)
        for name, written in zip(names, _entry_names(names), strict=True):
            accepted = values[name].union(*(of for key, of in last.items() if key[1] == name))
            self._number(f"trainingMetrics[{written}]", accepted, _values_of(held, written))
        beyond = len(values) + len(last) > LIMITS.metrics
        for (_, name, _, _), accepted in last.items():
            if name not in values and not beyond:
                found = [text for key, text in held.items() if _is_called(key, name)]
                self._number(f"trainingMetrics[{name}]", accepted, found)

    def tags(self, tags: Mapping[str, str], *, without: Collection[str]) -> None:
        """Compare tags, `without` those that become something else than custom properties."""
        names = self._within_limit("tag", tags, LIMITS.tags)
        taken: set[str] = set()
        for name in names:
            if name in without:
                continue
            written = fit(_tag_name(name), LIMITS.name_chars)
            while written in taken:
                written = f"tag.{written}"
            taken.add(written)
            value = redact_urls(tags[name]) if name in REPO_TAGS else tags[name]
            field = f"{CUSTOM}[{written}]"
            if written not in self.custom and len(self.custom) >= MAX_CUSTOM_PROPERTIES - 1:
                self._result.leave_out("tag", f"beyond {MAX_CUSTOM_PROPERTIES:,} properties")
            else:
                self._text("tag", field, value, self.custom.get(written))

    def description(self, text: str | None) -> None:
        """Compare the tag that holds a description, where there is one."""
        if text:
            self._text("tag", "description", text, self.properties.get("description"))

    def text_in_list(self, kind: Kind, field: str, expected: str, found: object) -> None:
        """Compare a text inside a custom property that is JSON."""
        self._text(kind, field, expected, clean(found) if isinstance(found, str) else None)

    def leave_out(self, noun: str, why: str, count: int) -> None:
        """Count what the catalog says it is not given."""
        self._result.leave_out(noun, why, count)

    def fact(self, kind: Kind, key: PropertyKey, value: str | None) -> None:
        """Compare a custom property of our own, where it should have a value; not counted."""
        found = self.custom.get(key.value)
        if value and found != value:
            outcome: Outcome = "missing" if found is None else "stale"
            self.report(outcome, kind, f"{CUSTOM}[{key.value}]", value, found)

    def membership(self, group: str) -> None:
        """Compare whether the entity is in a group."""
        self._result.compared["membership"] += 1
        groups = self.properties.get("groups") or []
        if group not in groups:
            self.report("missing", "membership", "groups", group, ", ".join(groups) or None)

    def datasets(self, inputs: Sequence[DatasetInput]) -> None:
        """Compare the datasets of a run, by name and digest, with the list of them."""
        text = self.custom.get(PropertyKey.DATASETS) or "[]"
        if _CUT.search(text):
            self._result.leave_out("dataset", "beyond the limit of one property", len(inputs))
            return
        listed = json_or_none(text)
        entries = [one for one in listed if isinstance(one, dict)] if listed else []
        held = {(one.get("name"), one.get("digest") or "") for one in entries}
        for one in inputs:
            self._result.compared["dataset"] += 1
            if (clean(one.name), clean(one.digest or "")) not in held:
                field = f"{CUSTOM}[{PropertyKey.DATASETS}]"
                self.report("missing", "dataset", field, f"{one.name} {one.digest}", None)

    def _within_limit(self, kind: Kind, names: Collection[str], limit: int) -> list[str]:
        """Return the first names, as many as the catalog is given; count the others."""
        ordered = sorted(names)
        self._result.leave_out(
            kind, f"beyond the limit of {limit:,} a record", max(0, len(ordered) - limit)
        )
        return ordered[:limit]

    def _text(self, kind: Kind, field: str, expected: str, found: str | None) -> None:
        self._result.compared[kind] += 1
        if found is None:
            self.report("missing", kind, field, expected, None)
        elif _is_cut(expected, found):
            self._result.leave_out("text", "cut at a limit")
        elif found != clean(expected):
            self.report("stale", kind, field, expected, found)

    def _number(self, field: str, accepted: Collection[float], found: Sequence[str]) -> None:
        self._result.compared["metric"] += 1
        if not any(_is_number(text, value) for text in found for value in accepted):
            outcome: Outcome = "stale" if found else "missing"
            expected = " or ".join(sorted(map(repr, accepted)))
            self.report(outcome, "metric", field, expected, ", ".join(found) or None)


def _by_name(entries: Any) -> dict[str, str]:
    return {one.get("name", ""): one.get("value", "") for one in entries or ()}


def _values_of(held: Mapping[str, str], name: str) -> list[str]:
    return [held[name]] if name in held else []


def _is_system(metric: Metric) -> bool:
    return metric.key.startswith(SYSTEM_METRICS)


def _last_values(
    metrics: Sequence[Metric],
) -> Mapping[tuple[str, str, str, str], set[float]]:
    """Return the values logged last by model, key and dataset; several where times are equal."""
    times: dict[tuple[str, str, str, str], int] = {}
    values: dict[tuple[str, str, str, str], set[float]] = {}
    for one in metrics:
        key = (one.model_id or "", one.key, one.dataset_name or "", one.dataset_digest or "")
        time = one.timestamp_ms or 0
        if key not in times or time > times[key]:
            values[key], times[key] = set(), time
        if time == times[key]:
            values[key].add(one.value)
    return values


def _is_called(name: str, metric: str) -> bool:
    """Return whether an entry is called as `metric`, perhaps with more before or behind."""
    wanted = fit(metric, LIMITS.name_chars)
    before = name.rpartition(" (")[0] if name.endswith(")") else name
    return any(one == wanted or one.endswith(f"/{wanted}") for one in (name, before))


def _is_number(text: str, value: float) -> bool:
    try:
        found = float(text)
    except ValueError:
        return False
    if math.isnan(value):
        return math.isnan(found)
    if abs(value) >= _MAX_DOUBLE:
        return math.isinf(found) and (found > 0) == (value > 0)
    return found == value


def clean(text: str) -> str:
    """Return a text as the catalog takes it, without control characters and lone surrogates."""
    return _UNFIT.sub("\ufffd", text)


def fit(text: str, limit: int) -> str:
    """Return a text as the catalog takes it, cut at a limit."""
    cleaned = clean(text)
    return cleaned if len(cleaned) <= limit else cleaned[:limit] + truncation(len(cleaned))


def _is_cut(expected: str, found: str) -> bool:
    """Return whether `found` is `expected` cut at one of the documented limits."""
    ending = None if found == expected else _CUT.search(found)
    if ending is None:
        return False
    kept = found[: ending.start()]
    return _LEAST_KEPT <= len(kept) < len(expected) and clean(expected).startswith(kept)


def _entry_names(names: Sequence[str]) -> Iterator[str]:
    """Yield the names in the catalog of parameters or metrics, of equal ones with a number."""
    taken: set[str] = set()
    for name in names:
        escaped = f"source.{name}" if _is_reserved(name) else name
        short = free = fit(escaped, LIMITS.name_chars)
        number = 2
        while free in taken:
            free = f"{short} ({number})"
            number += 1
        taken.add(free)
        yield free


def _is_reserved(name: str) -> bool:
    while name.startswith("source."):
        name = name.removeprefix("source.")
    return name.startswith(OWN_PREFIX)


def _tag_name(name: str) -> str:
    """Return the name in the catalog of a tag: reserved names get a prefix."""
    if _is_reserved(name):
        return f"source.{name}"
    plain = name
    while plain.startswith("tag."):
        plain = plain.removeprefix("tag.")
    return f"tag.{name}" if plain in _OWN_KEYS else name
