"""Properties of one record cut until they fit into one proposal."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.sources.mlflow.mapping.text import Fitter, cut

_CAPS: Final = (2_000, 200, 40)
_BYTES_A_CHAR: Final = 4
_BYTES_AN_ENTRY: Final = 160
_LISTS: Final = ("trainingMetrics", "hyperParams", "customProperties")


def sized(aspect: dict[str, Any], fitter: Fitter) -> dict[str, Any]:
    """Return a properties aspect that fits into one proposal, `aspect` itself where it does.

    Cost: nearly nothing for an ordinary aspect, whose size is only estimated, from above.
    """
    limits = fitter.limits
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
    return shrink(aspect, fitter)


def shrink(aspect: dict[str, Any], fitter: Fitter) -> dict[str, Any]:
    """Return a properties aspect that fits: first the long values are cut, then lists are.

    Cost: serialises the aspect once a step, at most a dozen times.
    """
    most = fitter.limits.aspect_bytes
    size = len(dumps(aspect))
    if size <= most:
        return aspect
    fitter.note("truncated", f"properties of {size} bytes")
    for cap in _CAPS:
        aspect = _cut_values(aspect, cap)
        if len(dumps(aspect)) <= most:
            fitter.note("truncated", f"values cut to {cap} characters")
            return aspect
    while len(dumps(aspect)) > most:
        longest = max(_LISTS, key=lambda field: len(aspect.get(field) or ()))
        if len(aspect.get(longest) or ()) < 2:
            break
        aspect = {**aspect, longest: _first_half(aspect[longest])}
        fitter.note("truncated", f"{longest} cut to {len(aspect[longest])} entries")
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
