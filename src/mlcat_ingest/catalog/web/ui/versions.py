"""The registered versions of a group: their columns, and where the aliases are."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mlcat_ingest.catalog.search.pages import STAGE_TAG
from mlcat_ingest.catalog.search.request import Criterion, SearchRequest
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.facts import Piece
from mlcat_ingest.catalog.web.ui.lists import ListRow, properties_of, value_of
from mlcat_ingest.catalog.web.ui.text import entity_href, scalar
from mlcat_ingest.core.text import json_or_none
from mlcat_ingest.metadata.aspects.governance import GLOBAL_TAGS
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.mlflow_keys import ALIASES

_STAGES: Final = ("production", "staging", "archived")
_MOST: Final = 50
"""Most aliases that are shown of one model."""


def version_rows(
    store: Store, rows: Sequence[ListRow], group: Mapping[str, Any]
) -> Sequence[ListRow]:
    """Return `rows` with aliases and stage of those that are registered versions.

    They do not repeat the description of their `group`, which has these properties.

    Cost: one SQL statement if there are any.
    """
    if all(row.maker is None for row in rows):
        return rows
    tags = store.get_many([row.urn for row in rows], {GLOBAL_TAGS})
    return [
        replace(
            row,
            aliases=tuple(mark.rpartition("@")[2] for mark in row.marks if "@" in mark),
            marks=tuple(mark for mark in row.marks if "@" not in mark),
            stage=_stage(tags.get(row.urn, {})),
            description="" if row.description == group.get("description") else row.description,
        )
        for row in rows
    ]


def _stage(aspects: Mapping[str, Any]) -> str:
    tags = value_of(aspects, GLOBAL_TAGS).get("tags")
    named = {str(entry.get("tag")).removeprefix(STAGE_TAG) for entry in tags or ()}
    return next((stage.capitalize() for stage in _STAGES if stage in named), "")


def aliases_of(store: Store, urn: str, properties: Mapping[str, Any]) -> Mapping[str, object]:
    """Return the aliases of a group, each with the version that it leads to, and how many more.

    Cost: a search and one SQL statement if there are any.
    """
    found = json_or_none((properties.get("customProperties") or {}).get(ALIASES))
    versions = {one: scalar(found[one]) for one in found} if isinstance(found, dict) else {}
    shown = dict(sorted(versions.items())[:_MOST])
    hrefs = _versions(store, urn, list(shown.values())) if shown else {}
    pieces = [(alias, Piece(version, hrefs.get(version))) for alias, version in shown.items()]
    return {"shown": pieces, "more": len(versions) - len(shown)}


def _versions(store: Store, group: str, versions: Sequence[str]) -> dict[str, str]:
    members = (Criterion("groups", (group,)), Criterion("version", tuple(versions)))
    request = SearchRequest(any_of=(members,), count=2 * _MOST, highlight=False)
    urns = [hit.urn for hit in store.search(request).hits]
    stored = store.get_many(urns, {ML_MODEL_PROPERTIES})
    tags = {urn: properties_of(urn, aspects).get("version") for urn, aspects in stored.items()}
    return {
        scalar(tag.get("versionTag")): entity_href(urn)
        for urn, tag in tags.items()
        if isinstance(tag, Mapping)
    }
