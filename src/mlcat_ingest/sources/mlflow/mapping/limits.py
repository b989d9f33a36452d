"""How much of one record goes into the catalog: the one table of sizes, and the way back to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.sources.mlflow.mapping.text import cut


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes beyond which a record is truncated, with a note in place and one in the report.

    MLflow's SQL stores keep less than most of these; file stores and other servers keep anything.
    """

    name_chars: int = 250
    """Characters of the name of a parameter, metric or custom property."""
    value_chars: int = 8_000
    """Characters of one value, such as a parameter's or a name: 32,000 bytes of UTF-8 at most, so
    that the search index of a DataHub server takes it."""
    description_chars: int = 32_000
    """Characters of a description."""
    params: int = 2_000
    """Parameters of one run."""
    metrics: int = 5_000
    """Metrics of one run."""
    tags: int = 900
    """Tags of one record: with what we add, a DataHub server searches 1,000 custom properties."""
    aspect_bytes: int = 4 * 1024 * 1024
    """Bytes of one aspect as JSON; a service takes 16 MB a request, JSON inside JSON."""


LIMITS: Final = Limits()

_CAPS: Final = (2_000, 200, 40)
_BYTES_A_CHAR: Final = 4
_BYTES_AN_ENTRY: Final = 160
_LISTS: Final = ("trainingMetrics", "hyperParams", "customProperties")


def sized(aspect: dict[str, Any], limits: Limits, notes: list[Note]) -> dict[str, Any]:
    """Return a properties aspect that fits into one proposal, `aspect` itself where it does.

    Cost: nearly nothing for an ordinary aspect, whose size is only estimated, from above.
    """
    custom: dict[str, str] = aspect["customProperties"]
    params: Sequence[Mapping[str, str]] = aspect.get("hyperParams", ())
    entries = len(custom) + len(params) + len(aspect.get("trainingMetrics", ()))
    chars = sum(map(len, custom.values())) + len(aspect.get("description") or "")
    chars += sum([len(entry["value"]) for entry in params])
    if (
        chars * _BYTES_A_CHAR + entries * (limits.name_chars + _BYTES_AN_ENTRY) * _BYTES_A_CHAR
        <= limits.aspect_bytes
    ):
        return aspect
    return shrink(aspect, limits, notes)


def shrink(aspect: dict[str, Any], limits: Limits, notes: list[Note]) -> dict[str, Any]:
    """Return a properties aspect that fits: first the long values are cut, then lists are.

    Cost: serialises the aspect once a step, at most a dozen times.
    """
    size = len(dumps(aspect))
    if size <= limits.aspect_bytes:
        return aspect
    notes.append(Note("truncated", f"properties of {size} bytes"))
    for cap in _CAPS:
        aspect = _cut_values(aspect, cap)
        if len(dumps(aspect)) <= limits.aspect_bytes:
            notes.append(Note("truncated", f"values cut to {cap} characters"))
            return aspect
    while len(dumps(aspect)) > limits.aspect_bytes:
        longest = max(_LISTS, key=lambda field: len(aspect.get(field) or ()))
        if len(aspect.get(longest) or ()) < 2:
            break
        aspect = {**aspect, longest: _first_half(aspect[longest])}
        notes.append(Note("truncated", f"{longest} cut to {len(aspect[longest])} entries"))
    return aspect


def _first_half(entries: Any) -> Any:
    kept = len(entries) // 2
    if isinstance(entries, Mapping):
        return dict(list(entries.items())[:kept])
    return entries[:kept]


def _cut_values(aspect: dict[str, Any], cap: int) -> dict[str, Any]:
    result = dict(aspect)
    if result.get("description"):
        result["description"] = cut(result["description"], cap)
    properties = result.get("customProperties")
    if properties:
        result["customProperties"] = {key: cut(value, cap) for key, value in properties.items()}
    if result.get("hyperParams"):
        result["hyperParams"] = [
            {**entry, "value": cut(entry["value"], cap)} for entry in result["hyperParams"]
        ]
    return result
