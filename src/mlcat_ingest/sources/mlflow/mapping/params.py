"""Parameters of a run as the catalog's hyperparameters, and names of entries in lists."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.metadata.reserved import OWN_PREFIX
from mlcat_ingest.sources.mlflow.joined import Limits
from mlcat_ingest.sources.mlflow.mapping.properties import note_left_out, source_name
from mlcat_ingest.sources.mlflow.mapping.text import are_fit, fit

Entry = dict[str, Any]


def hyper_params(
    params: Mapping[str, str], properties: dict[str, str], limits: Limits, notes: list[Note]
) -> list[Entry]:
    """Return the `hyperParams` of a run, sorted by name."""
    names = sorted(params)
    if len(names) > limits.params:
        note_left_out(properties, "parameters", limits.params, len(names), notes)
        names = names[: limits.params]
    values = [params[name] for name in names]
    limit = limits.value_chars
    if not are_fit(values, limit):
        values = [
            fit(value, limit, notes, f"parameter {name[: limits.name_chars]!r}")
            for name, value in zip(names, values, strict=True)
        ]
    return [
        {"name": name, "value": value}
        for name, value in zip(fit_names(names, limits, notes), values, strict=True)
    ]


def fit_names(names: Sequence[str], limits: Limits, notes: list[Note]) -> Sequence[str]:
    """Return names of entries that fit, are unique and are none of our own `mlcat.*`."""
    if are_fit(names, limits.name_chars) and OWN_PREFIX not in "".join(names):
        return names
    taken: dict[str, None] = {}
    for given in names:
        name = source_name(given)
        # A parameter shares no name space with our custom properties, only the `mlcat.` keys.
        name = name if name.startswith("source.") else given
        taken[free_name(fit(name, limits.name_chars, notes, "name of an entry"), taken)] = None
    return list(taken)


def free_name(name: str, taken: Collection[str]) -> str:
    """Return `name`, or `name (2)` and so on where it is taken."""
    free, number = name, 2
    while free in taken:
        free = f"{name} ({number})"
        number += 1
    return free
