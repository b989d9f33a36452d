"""Several versions of one set in one request: each new one becomes the latest of its set.

The server compares each with what the database held before the request, not with the others.
Source: VersionPropertiesSideEffect.java of the DataHub server.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.metadata.aspects.common import (
    IS_LATEST,
    VERSION_PROPERTIES,
    VERSION_SET_PROPERTIES,
)
from mlcat_ingest.testing.gms.requests import value_of

NewVersions = Mapping[str, Sequence[str]]
"""URNs, in the order of the request, by version set."""


def competing(store: Store, proposals: Sequence[Mapping[str, Any]]) -> NewVersions:
    """Return the sets of which several of `proposals` are newer than the latest of `store`."""
    found: dict[str, list[str]] = defaultdict(list)
    for proposal in proposals:
        if proposal.get("aspectName") == VERSION_PROPERTIES and proposal["changeType"] != "PATCH":
            urn, version = str(proposal["entityUrn"]), value_of(proposal)
            if _is_newer(store, urn, version):
                found[version["versionSet"]].append(urn)
    return {version_set: urns for version_set, urns in found.items() if len(urns) > 1}


def mark_all_latest(store: Store, versions: NewVersions) -> None:
    """Mark each of `versions`, which are stored, as the latest; the set names the last one."""
    for version_set, urns in versions.items():
        held = store.get_many([version_set, *urns], [VERSION_PROPERTIES, VERSION_SET_PROPERTIES])
        named = {**held[version_set][VERSION_SET_PROPERTIES].value, "latest": urns[-1]}
        store.write(
            [
                Write(version_set, VERSION_SET_PROPERTIES, named, "RESTATE"),
                *(
                    Write(
                        urn,
                        VERSION_PROPERTIES,
                        {**held[urn][VERSION_PROPERTIES].value, IS_LATEST: True},
                        "RESTATE",
                    )
                    for urn in urns
                ),
            ]
        )


def _is_newer(store: Store, urn: str, version: Mapping[str, Any]) -> bool:
    """Return whether a version sorts behind the latest of its set, or is the first."""
    latest = _held(store, version["versionSet"], VERSION_SET_PROPERTIES).get("latest")
    if latest is None:
        return True
    former = _held(store, latest, VERSION_PROPERTIES)
    return latest != urn and bool(former) and version["sortId"] > former["sortId"]


def _held(store: Store, urn: str, aspect: str) -> Mapping[str, Any]:
    found = store.get_many([urn], [aspect]).get(urn, {}).get(aspect)
    return {} if found is None else found.value
