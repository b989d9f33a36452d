"""The comparison of one entity: what MLflow says against what the catalog holds; pure."""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from oracle.mlflow_store import NAMES, STAGES, Wanted

OURS = ("mlflow.", "mlcat.", "signature.")
"""Beginnings of custom properties that are not tags of somebody."""
SUBTYPES = frozenset(
    {"ML Experiment", "Registered Model", "Model Version", "External Model", "Evaluation Run"}
)
PARENT = "Parent Run"
CUT = re.compile(r"… \[truncated, \d+ characters\]\Z")
UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
LARGEST = 1.7976931348623157e308
"""MLflow's SQL stores write it in place of infinity."""
MOST = 900
"""Tags beyond so many, and entries beyond a few thousand, may be left out."""


class Stored:
    """An entity of the catalog by its aspects; empty for one that it does not have."""

    def __init__(self, aspects: Mapping[str, Any]) -> None:
        self._aspects = aspects
        groups = aspects.get("mlModelGroupProperties")
        self.properties = groups or aspects.get("mlModelProperties") or {}
        self.custom: Mapping[str, str] = self.properties.get("customProperties") or {}

    @property
    def is_live(self) -> bool:
        return bool(self.properties) and not self.of("status").get("removed")

    def of(self, aspect: str) -> Mapping[str, Any]:
        return self._aspects.get(aspect) or {}

    def named(self, field: str) -> dict[str, str]:
        entries = self.properties.get(field) or ()
        return {one.get("name", ""): one.get("value", "") for one in entries}


def compare(wanted: Wanted, stored: Stored, others: Collection[str] = ()) -> Iterator[str]:
    """Yield what differs; `others` are names of entries that people added."""
    if wanted.hidden or not stored.is_live:
        if wanted.hidden == stored.is_live:
            yield "is live, and in MLflow's trash" if wanted.hidden else "is missing"
        return
    if wanted.params is not None:
        held = stored.named("hyperParams")
        yield from _texts("hyperParams", wanted.params, held)
        yield from _more("hyperParams", wanted.params, held, others)
    if wanted.metrics is not None:
        held = stored.named("trainingMetrics")
        yield from _metrics(wanted.metrics, held)
        yield from _more("trainingMetrics", wanted.metrics, held, others)
    yield from _texts("tags", wanted.tags, stored.custom)
    free = {name: text for name, text in stored.custom.items() if not name.startswith(OURS)}
    if not wanted.listed_models:
        yield from _more("tags", wanted.tags, free, others)
    for name, value in wanted.facts.items():
        if stored.custom.get(name) != value:
            yield f"{name}: {stored.custom.get(name)!r} instead of {value!r}"
    description = stored.properties.get("description")
    if wanted.description and not is_same(wanted.description, description):
        yield f"description: {description!r} instead of {wanted.description!r}"
    groups = stored.properties.get("groups") or []
    if wanted.group is not None and groups != [wanted.group]:
        yield f"groups: {groups} instead of {wanted.group}"
    yield from _datasets(wanted, stored)
    yield from _listed_models(wanted, stored)
    yield from _kind(wanted, stored)
    if wanted.aliases is not None:
        yield from _version(wanted, wanted.aliases, stored)


def is_same(wanted: str, found: str | None) -> bool:
    """Return whether a text is there: whole, or cut at a limit of the catalog."""
    if found is None:
        return False
    fit = UNFIT.sub("\ufffd", wanted)
    cut = CUT.search(found)
    if found == fit or cut is None:
        return found == fit or ("://" in wanted and "@" in wanted)
    kept = found[: cut.start()]
    return len(kept) >= min(40, len(wanted)) and fit.startswith(kept)


def is_named(name: str, wanted: str) -> bool:
    """Return whether an entry stands for the name: it may have more before it, or a cut end.

    That is a number or the id of a model behind it, or the name of a model or dataset before it.
    """
    before = name.rpartition(" (")[0] if name.endswith(")") else name
    return any(
        is_same(wanted, one) or any(is_same(wanted, end) for end in _ends(one))
        for one in dict.fromkeys((name, before))
    )


def _ends(name: str) -> Iterator[str]:
    for sign in "/.":
        for at, letter in enumerate(name):
            if letter == sign:
                yield name[at + 1 :]


def holds(name: str, value: str, held: Mapping[str, str]) -> bool:
    """Return whether a text is among the entries, under its name or a longer one."""
    if name in held and is_same(value, held[name]):
        return True
    return any(is_same(value, text) and is_named(entry, name) for entry, text in held.items())


def _texts(field: str, wanted: Mapping[str, str], held: Mapping[str, str]) -> Iterator[str]:
    full = len(held) > MOST
    for name, value in wanted.items():
        if not holds(name, value, held) and not (full and name not in held):
            yield f"{field}[{name}]: {held.get(name)!r} instead of {value!r}"


def _metrics(wanted: Mapping[str, Collection[float]], held: Mapping[str, str]) -> Iterator[str]:
    for name, values in wanted.items():
        found = [held[name]] if name in held else []
        if not any(_is_number(text, value) for text in found for value in values):
            found += [text for entry, text in held.items() if is_named(entry, name)]
        if not any(_is_number(text, value) for text in found for value in values):
            yield f"trainingMetrics[{name}]: {found} instead of {sorted(values)}"


def _is_number(text: str, value: float) -> bool:
    number = float(text)
    if math.isnan(value):
        return math.isnan(number)
    if abs(value) >= LARGEST:
        return math.isinf(number) and (number > 0) == (value > 0)
    return number == value


def _more(
    field: str, wanted: Collection[str], held: Mapping[str, str], others: Collection[str]
) -> Iterator[str]:
    for name in held:
        if name in wanted or name in others or any(is_named(name, one) for one in wanted):
            continue
        yield f"{field}[{name}]: {held[name]!r}, and MLflow does not have it"


def _datasets(wanted: Wanted, stored: Stored) -> Iterator[str]:
    text = stored.custom.get("mlflow.datasets") or "[]"
    if not wanted.datasets or CUT.search(text):
        return
    listed = json.loads(text)
    held = {(one.get("name"), one.get("digest") or "") for one in listed}
    for name, digest in sorted(wanted.datasets):
        if (UNFIT.sub("\ufffd", name), digest or "") not in held:
            yield f"mlflow.datasets: {name} {digest} is missing"


def _listed_models(wanted: Wanted, stored: Stored) -> Iterator[str]:
    if not wanted.listed_models or "logged models" in stored.custom.get("mlflow.left_out", ""):
        return
    listed = {
        one.get("id"): one for one in json.loads(stored.custom.get("mlflow.logged_models", "[]"))
    }
    for model_id, model in wanted.listed_models.items():
        found = listed.get(model_id)
        if found is None:
            yield f"mlflow.logged_models: {model_id} is missing"
            continue
        if found.get("status") != str(model.status):
            yield f"mlflow.logged_models[{model_id}]: {found.get('status')}, not {model.status}"
        for field in ("params", "tags"):
            held = cleaned(found.get(field))
            facts = getattr(model, field).items()
            rest = {k: v for k, v in facts if wanted.tags.get(k) != v and k not in NAMES}
            yield from _texts(f"mlflow.logged_models[{model_id}].{field}", rest, held)


def cleaned(texts: Mapping[str, str] | None) -> dict[str, str]:
    """Return texts of a JSON property, which keeps what no aspect takes, as aspects take them."""
    return {UNFIT.sub("\ufffd", k): UNFIT.sub("\ufffd", v) for k, v in (texts or {}).items()}


def _kind(wanted: Wanted, stored: Stored) -> Iterator[str]:
    held = set(stored.of("subTypes").get("typeNames") or ())
    if held & (SUBTYPES | {PARENT}) != wanted.subtypes:
        yield f"subTypes: {sorted(held)} instead of {sorted(wanted.subtypes)}"
    steps = stored.of("browsePathsV2").get("path") or []
    ends = [str(one["id"]) for one in steps][-len(wanted.folders) :] if wanted.folders else []
    if not all(map(is_same, wanted.folders, ends)) or len(ends) != len(wanted.folders):
        yield f"browsePathsV2: {ends} instead of {wanted.folders}"


def _version(wanted: Wanted, aliases: Collection[str], stored: Stored) -> Iterator[str]:
    versions = stored.of("versionProperties").get("aliases") or ()
    held = {str(one.get("versionTag")) for one in versions}
    if held != {*aliases}:
        yield f"aliases: {sorted(held)} instead of {sorted(aliases)}"
    tags = {one.get("tag") for one in stored.of("globalTags").get("tags") or ()}
    for stage in STAGES:
        if (f"urn:li:tag:mlflow_{stage.lower()}" in tags) != (stage == wanted.stage):
            yield f"globalTags: the stage is not {wanted.stage}"
