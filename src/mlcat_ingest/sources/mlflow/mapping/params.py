"""Parameters of a run as the catalog's hyperparameters, and names of entries in lists."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mlcat_ingest.metadata.reserved import OWN_PREFIX
from mlcat_ingest.sources.mlflow.mapping.properties import PropertiesBuilder, source_name
from mlcat_ingest.sources.mlflow.mapping.text import Fitter, are_fit

Entry = dict[str, Any]


def hyper_params(params: Mapping[str, str], custom: PropertiesBuilder) -> list[Entry]:
    """Return the `hyperParams` of a run, sorted by name."""
    fitter, limits = custom.fitter, custom.fitter.limits
    names = custom.limited("parameters", sorted(params), limits.params)
    values = [params[name] for name in names]
    if not are_fit(values, limits.value_chars):
        values = [
            fitter.text(value, f"parameter {name[: limits.name_chars]!r}")
            for name, value in zip(names, values, strict=True)
        ]
    return [
        {"name": name, "value": value}
        for name, value in zip(fit_names(names, fitter), values, strict=True)
    ]


def fit_names(names: Sequence[str], fitter: Fitter) -> Sequence[str]:
    """Return names of entries that fit, are unique and are none of our own `mlcat.*`."""
    if are_fit(names, fitter.limits.name_chars) and OWN_PREFIX not in "".join(names):
        return names
    taken: dict[str, None] = {}
    for given in names:
        name = source_name(given)
        # A parameter shares no name space with our custom properties, only the `mlcat.` keys.
        name = name if name.startswith("source.") else given
        taken[free_name(fitter.name(name, "name of an entry"), taken)] = None
    return list(taken)


def free_name(name: str, taken: Collection[str]) -> str:
    """Return `name`, or `name (2)` and so on where it is taken."""
    free, number = name, 2
    while free in taken:
        free = f"{name} ({number})"
        number += 1
    return free
