"""The proposal of a merged aspect: its condition, its patch, and what is not sent."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.metadata.aspects import IS_LATEST, VERSION_PROPERTIES
from mlcat_ingest.metadata.entries import same_json
from mlcat_ingest.metadata.proposal import IF_VERSION_MATCH, NOT_STORED, Aspect, Proposal
from mlcat_ingest.metadata.registry import KEY_ASPECTS
from mlcat_ingest.pipeline.merge.applied import NOTHING
from mlcat_ingest.pipeline.merge.rules import without_computed

_IF_ABSENT: Final = {IF_VERSION_MATCH: NOT_STORED}


def condition(before: StoredAspect | None) -> Mapping[str, str]:
    """Return the header that keeps a write from going over anybody else's.

    DataHub takes an aspect without a version, which v0.13 or older wrote, for version 1.

    Source: `ConditionalWriteValidator` of DataHub.
    """
    if before is None:
        return _IF_ABSENT
    return {IF_VERSION_MATCH: before.version or "1"}


def propose(urn: str, name: str, before: StoredAspect | None, value: Aspect | None) -> Proposal:
    """Return the proposal that makes `value` of a stored aspect; None deletes it.

    A key aspect has no condition: no server checks one, and it never changes. Computed fields are
    not sent. A stored version is patched: its `isLatest` depends on the other
    versions, so to replace the aspect without it would drop it (VersionPropertiesValidator.java).
    """
    header = None if name in KEY_ASPECTS else condition(before)
    if value is None:
        return Proposal(urn, name, {}, "DELETE", header)
    stored = NOTHING if before is None else before.value
    if name != VERSION_PROPERTIES or IS_LATEST not in stored:
        return Proposal(urn, name, without_computed(name, value), headers=header)
    whole = {**value, IS_LATEST: stored[IS_LATEST]}
    return Proposal(urn, name, whole, "PATCH", header, tuple(_operations(stored, whole)))


def propose_equal(urn: str, name: str, before: StoredAspect) -> Proposal:
    """Return the proposal that writes a stored aspect once more, as it is."""
    whole = propose(urn, name, before, before.value)
    if whole.change_type != "PATCH":
        return whole
    return replace(whole, patch=tuple(_operations(NOTHING, without_computed(name, before.value))))


def _operations(before: Aspect, after: Aspect) -> Iterator[Mapping[str, object]]:
    """Yield the operations of a JSON patch that make `after` of `before`, field by field."""
    for field in sorted(before.keys() - after.keys()):
        yield {"op": "remove", "path": _pointer(field)}
    for field, value in after.items():
        if field not in before or not same_json(before[field], value):
            yield {"op": "add", "path": _pointer(field), "value": value}


def _pointer(field: str) -> str:
    return "/" + field.replace("~", "~0").replace("/", "~1")
