"""The summaries of incidents, which the catalog keeps on their entities as they are written.

Source: IncidentsSummaryHook of DataHub; the two older lists of URNs stay empty.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.version_sets import CurrentAspect
from mlcat_ingest.metadata.aspects import INCIDENTS_SUMMARY
from mlcat_ingest.metadata.registry import allows
from mlcat_ingest.metadata.urn import entity_type_of


def summaries(
    urn: str, before: Mapping[str, Any], now: Mapping[str, Any], current: CurrentAspect
) -> Iterator[Write]:
    """Yield the summaries that change with an incident; without a required field it is in none."""
    entities = (now.get("entities") or ()) if _is_whole(now) else ()
    for entity in dict.fromkeys([*(before.get("entities") or ()), *entities]):
        if not allows(entity_type_of(entity), INCIDENTS_SUMMARY):
            continue
        stored = current(entity, INCIDENTS_SUMMARY) or {}
        summary: dict[str, list[Any]] = {"resolvedIncidents": [], "activeIncidents": []}
        for part in ("resolvedIncidentDetails", "activeIncidentDetails"):
            summary[part] = [one for one in stored.get(part) or () if one["urn"] != urn]
        if entity in entities:
            is_active = now["status"]["state"] == "ACTIVE"
            part = "activeIncidentDetails" if is_active else "resolvedIncidentDetails"
            summary[part].append(_details(urn, now, is_active=is_active))
        if summary != stored:
            yield Write(entity, INCIDENTS_SUMMARY, summary)


def _is_whole(info: Mapping[str, Any]) -> bool:
    status, created = info.get("status") or {}, info.get("created") or {}
    times = [(stamp or {}).get("time") for stamp in (status.get("lastUpdated"), created)]
    return bool(info.get("type") and status.get("state")) and None not in times


def _details(urn: str, info: Mapping[str, Any], *, is_active: bool) -> dict[str, Any]:
    kind = info.get("customType") if info["type"] == "CUSTOM" else info["type"]
    details = {"urn": urn, "type": kind or "CUSTOM", "createdAt": info["created"]["time"]}
    if not is_active:
        details["resolvedAt"] = info["status"]["lastUpdated"]["time"]
    if info.get("priority") is not None:
        details["priority"] = info["priority"]
    return details
