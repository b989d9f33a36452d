"""Version sets: the latest member, computed on write.

As on a DataHub server, a version is compared with the database, not with other items of its
request: several new versions of one set in one request are all marked as the latest. Only labels
and sort ids have to be unique within a request, too.

Source: VersionPropertiesValidator, VersionSetPropertiesValidator, VersionPropertiesSideEffect and
VersionSetSideEffect of DataHub 1.5 and later.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy.engine import Connection

from mlcat_ingest.catalog.errors import AspectRefusedError, ComputedFieldError, InvalidProposalError
from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.prepare import PreparedWrite
from mlcat_ingest.metadata.aspects import (
    IS_LATEST,
    STATUS,
    VERSION_PROPERTIES,
    VERSION_SET_PROPERTIES,
)
from mlcat_ingest.metadata.registry import defaults, key_aspect
from mlcat_ingest.metadata.urn import entity_type_of

VERSION_ASPECTS: Final = frozenset({VERSION_PROPERTIES, VERSION_SET_PROPERTIES})
"""The aspects from which something else is computed."""

GENERATED: Final = "ALPHANUMERIC_GENERATED_BY_DATAHUB"
"""The versioning scheme of sets whose versions are sorted by texts that the catalog makes."""
_GENERATED_SORT_ID: Final = re.compile(r"[A-Z]{8}")

# These are the expressions of the indexes in `schema/tables.py`.
_WITH: Final = f"""SELECT entity.urn FROM aspect JOIN entity ON entity.id = aspect.entity_id
    WHERE aspect = '{VERSION_PROPERTIES}' AND json_extract(value, '$.versionSet') = ?"""  # noqa: S608
_WITH_SORT_ID_OR_LABEL: Final = f"""{_WITH} AND json_extract(value, '$.sortId') = ?
    UNION {_WITH} AND json_extract(value, '$.version.versionTag') = ?"""

CurrentAspect = Callable[[str, str], Mapping[str, Any] | None]
"""Returns the aspect of a URN, by name, as the items before this one have left it."""


class _Effects(NamedTuple):
    """The value under which an aspect is stored, and what else is written with it."""

    value: Mapping[str, Any]
    others: tuple[Write, ...] = ()


def needed_by(
    items: Iterable[PreparedWrite], current: CurrentAspect
) -> Iterator[list[tuple[str, str]]]:
    """Yield the aspects that the versions among `items` are compared with, as URN and name.

    The next list is known only once the one before was read.
    """
    versions = [item for item in items if item.write.aspect == VERSION_PROPERTIES]
    if not versions:
        return
    stated = (
        current(item.write.urn, VERSION_PROPERTIES) if item.content is None else item.content.value
        for item in versions
    )
    sets = {version["versionSet"] for version in stated if version is not None}
    yield [(version_set, VERSION_SET_PROPERTIES) for version_set in sets]
    known = (current(version_set, VERSION_SET_PROPERTIES) for version_set in sets)
    yield [(value["latest"], VERSION_PROPERTIES) for value in known if value is not None]


class VersionSets:
    """The version sets that one batch writes to."""

    def __init__(self, connection: Connection, current: CurrentAspect) -> None:
        self._connection = connection
        self._current = current
        # Aspects as they were before the batch, by URN and name.
        self._stored: dict[tuple[str, str], Mapping[str, Any] | None] = {}
        # Versions that this batch wrote: by set and sort id, and by set and label.
        self._written: dict[tuple[str, str, str], str] = {}

    def effects(self, urn: str, aspect: str, value: Mapping[str, Any]) -> _Effects:
        """Return the effects of writing `value`.

        Raises:
            AspectRefusedError: a rule of version sets does not allow it.

        Cost: a SQL statement for a version.
        """
        before = self._before(urn, aspect)
        try:
            if aspect == VERSION_PROPERTIES:
                return self._of_version(urn, value)
            return self._of_set(urn, before, value)
        except AspectRefusedError:
            raise
        except InvalidProposalError as error:
            raise AspectRefusedError(urn, aspect, str(error)) from error

    def _before(self, urn: str, aspect: str) -> Mapping[str, Any] | None:
        """Return what an aspect was before the batch; to be asked before it is written."""
        if (urn, aspect) not in self._stored:
            self._stored[urn, aspect] = self._current(urn, aspect)
        return self._stored[urn, aspect]

    def _of_version(self, urn: str, value: Mapping[str, Any]) -> _Effects:
        version_set, sort_id = value["versionSet"], value["sortId"]
        set_properties = self._before(version_set, VERSION_SET_PROPERTIES)
        scheme = value.get("versioningScheme", defaults(VERSION_PROPERTIES)["versioningScheme"])
        expected = key_aspect(version_set)[1]["entityType"]
        if entity_type_of(urn) != expected:
            raise InvalidProposalError(
                f"Version Set specified entity type does not match, expected type: {expected}"
            )
        if set_properties is not None:
            _check_scheme(set_properties["versioningScheme"], scheme, sort_id)
        self._check_unique(urn, version_set, sort_id, value["version"].get("versionTag"))
        if set_properties is None:
            return self._of_first_in_set(urn, value, scheme)
        if set_properties["latest"] == urn:
            return _Effects(value)
        others = [_set_latest(version_set, scheme, urn)]
        former = self._before(set_properties["latest"], VERSION_PROPERTIES)
        if former is not None:
            if sort_id <= former["sortId"]:
                return _Effects(value)
            others.append(_mark_latest(set_properties["latest"], former, is_latest=False))
        return _Effects({**value, IS_LATEST: True}, tuple(others))

    def _of_first_in_set(self, urn: str, value: Mapping[str, Any], scheme: str) -> _Effects:
        """Return the effects of writing a version whose set has no computed properties yet.

        Its set may have versions: earlier releases of this catalog stored them as they came.
        """
        version_set = value["versionSet"]
        stored = self._connection.exec_driver_sql(_WITH, (version_set,)).scalars()
        earlier = {
            other: version
            for other in stored
            if other != urn
            and (version := self._current(other, VERSION_PROPERTIES)) is not None
            and version["versionSet"] == version_set
        }
        versions = {**earlier, urn: value}
        latest = max(versions, key=lambda member: versions[member]["sortId"])
        marked = [
            _mark_latest(other, version, is_latest=other == latest)
            for other, version in earlier.items()
        ]
        effects = (_set_latest(version_set, scheme, latest), *marked)
        return _Effects({**value, IS_LATEST: latest == urn}, effects)

    def _check_unique(self, urn: str, version_set: str, sort_id: str, label: str | None) -> None:
        keys = [(version_set, "sort id", sort_id)]
        if label is not None:
            keys.append((version_set, "label", label))
        stored = self._connection.exec_driver_sql(
            _WITH_SORT_ID_OR_LABEL, (version_set, sort_id, version_set, label)
        ).scalars()
        others = {*stored, *(self._written[key] for key in keys if key in self._written)} - {urn}
        if any(self._is_taken_by(other, version_set, sort_id, label) for other in others):
            raise InvalidProposalError(
                f"Sort Id and Version label must be unique: sort ID: {sort_id} "
                f"version label: {label}"
            )
        self._written.update(dict.fromkeys(keys, urn))

    def _is_taken_by(self, other: str, version_set: str, sort_id: str, label: str | None) -> bool:
        """Return whether `other` still has the sort id or the label: the batch may have changed it.

        A soft-deleted entity does not count.
        """
        value = self._current(other, VERSION_PROPERTIES)
        if value is None or value["versionSet"] != version_set:
            return False
        has_label = label is not None and value["version"].get("versionTag") == label
        if value["sortId"] != sort_id and not has_label:
            return False
        return (self._current(other, STATUS) or {}).get("removed") is not True

    def _of_set(
        self, urn: str, before: Mapping[str, Any] | None, value: Mapping[str, Any]
    ) -> _Effects:
        latest, scheme = value["latest"], value["versioningScheme"]
        if before is not None and before["versioningScheme"] != scheme:
            raise ComputedFieldError(
                urn,
                VERSION_SET_PROPERTIES,
                f"Versioning Scheme cannot change. Expected Scheme: {before['versioningScheme']} "
                f"Provided Scheme: {scheme}",
            )
        version = self._current(latest, VERSION_PROPERTIES)
        if version is None:
            raise InvalidProposalError(f"Cannot set latest version to unversioned entity: {latest}")
        if before is None:
            return _Effects(value, (_mark_latest(latest, version, is_latest=True),))
        if before["latest"] == latest:
            return _Effects(value)
        others = [_mark_latest(latest, version, is_latest=True)]
        former = self._current(before["latest"], VERSION_PROPERTIES)
        if former is not None:
            others.append(_mark_latest(before["latest"], former, is_latest=False))
        return _Effects(value, tuple(others))


def _set_latest(version_set: str, scheme: str, latest: str) -> Write:
    properties = {"versioningScheme": scheme, "latest": latest}
    return Write(version_set, VERSION_SET_PROPERTIES, properties, "RESTATE")


def _mark_latest(urn: str, value: Mapping[str, Any], *, is_latest: bool) -> Write:
    return Write(urn, VERSION_PROPERTIES, {**value, IS_LATEST: is_latest}, "RESTATE")


def _check_scheme(expected: str, scheme: str, sort_id: str) -> None:
    if scheme != expected:
        raise InvalidProposalError(
            "Versioning Scheme does not match Version Set properties. "
            f"Expected Scheme: {expected} Provided Scheme: {scheme}"
        )
    if scheme == GENERATED and _GENERATED_SORT_ID.fullmatch(sort_id) is None:
        raise InvalidProposalError(
            f"Invalid sortID for Versioning Scheme. ID: {sort_id} Scheme: {scheme}"
        )
