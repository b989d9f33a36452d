"""Parameters of a run as the catalog's hyperparameters, and names of entries in lists."""

from collections.abc import Collection, Mapping
from typing import Any

from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.sources.mlflow.mapping.limits import Limits
from mlcat_ingest.sources.mlflow.mapping.properties import note_left_out, source_name
from mlcat_ingest.sources.mlflow.mapping.text import fit

Entry = dict[str, Any]


def hyper_params(
    params: Mapping[str, str], properties: dict[str, str], limits: Limits, notes: list[Note]
) -> list[Entry]:
    """Return the `hyperParams` of a run, sorted by name."""
    names = sorted(params)
    if len(names) > limits.params:
        note_left_out(properties, "parameters", limits.params, len(names), notes)
        names = names[: limits.params]
    limit = limits.value_chars
    entries: list[Entry] = []
    for name in names:
        value = params[name]
        if len(value) > limit or not value.isprintable():
            value = fit(value, limit, notes, f"parameter {name[: limits.name_chars]!r}")
        entries.append({"name": name, "value": value})
    return with_fit_names(entries, limits, notes)


def with_fit_names(entries: list[Entry], limits: Limits, notes: list[Note]) -> list[Entry]:
    """Return `entries` with names that fit, are unique and are none of our own `mlcat.*`."""
    names = [entry["name"] for entry in entries]
    joined = "".join(names)
    longest = max(map(len, names), default=0)
    if joined.isprintable() and "mlcat." not in joined and longest <= limits.name_chars:
        return entries
    taken: set[str] = set()
    for entry in entries:
        name = source_name(entry["name"])
        # A parameter shares no name space with our custom properties, only the `mlcat.` keys.
        name = name if name.startswith("source.") else entry["name"]
        entry["name"] = free_name(fit(name, limits.name_chars, notes, "name of an entry"), taken)
        taken.add(entry["name"])
    return entries


def free_name(name: str, taken: Collection[str]) -> str:
    """Return `name`, or `name (2)` and so on where it is taken."""
    free, number = name, 2
    while free in taken:
        free = f"{name} ({number})"
        number += 1
    return free
