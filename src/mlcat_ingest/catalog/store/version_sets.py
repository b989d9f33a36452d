"""Version sets: which member is the latest is computed on write, as a DataHub server does it.

The server compares a version with the database; here it is compared with the database and with
what stands before it in the same request, so several versions of one set in one request leave one
latest.

Source: VersionPropertiesValidator, VersionSetPropertiesValidator, VersionPropertiesSideEffect and
VersionSetSideEffect of DataHub 1.5 and later.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.prepare import PreparedWrite
from mlcat_ingest.metadata.aspects.common import (
    IS_LATEST,
    STATUS,
    VERSION_PROPERTIES,
    VERSION_SET_PROPERTIES,
)
from mlcat_ingest.metadata.registry import defaults, key_aspect
from mlcat_ingest.metadata.urn import entity_type_of

VERSION_ASPECTS: Final = frozenset({VERSION_PROPERTIES, VERSION_SET_PROPERTIES})
"""The aspects from which something else is computed."""

_GENERATED: Final = "ALPHANUMERIC_GENERATED_BY_DATAHUB"
_GENERATED_SORT_ID: Final = re.compile(r"[A-Z]{8}")

# These are the expressions of the indexes in `tables.py`.
_WITH: Final = f"""SELECT entity.urn FROM aspect JOIN entity ON entity.id = aspect.entity_id
    WHERE aspect = '{VERSION_PROPERTIES}' AND json_extract(value, '$.versionSet') = ?1"""  # noqa: S608
_WITH_SORT_ID_OR_LABEL: Final = f"""{_WITH} AND json_extract(value, '$.sortId') = ?2
    UNION {_WITH} AND json_extract(value, '$.version.versionTag') = ?3"""

Held = Callable[[str, str], Mapping[str, Any] | None]
"""Returns the aspect of a URN, by name, as the items before this one have left it."""


class Effects(NamedTuple):
    """The value under which an aspect is stored, and what else is written with it."""

    value: Mapping[str, Any]
    others: tuple[Write, ...] = ()


def needed_by(items: Iterable[PreparedWrite], held: Held) -> Iterator[list[tuple[str, str]]]:
    """Yield the aspects that the versions among `items` are compared with, as URN and name.

    What a further list names is known only once the one before was read.
    """
    versions = [item for item in items if item.write.aspect == VERSION_PROPERTIES]
    if not versions:
        return
    stated = (
        held(item.write.urn, VERSION_PROPERTIES) if item.content is None else item.content.value
        for item in versions
    )
    sets = {version["versionSet"] for version in stated if version is not None}
    yield [(version_set, VERSION_SET_PROPERTIES) for version_set in sets]
    known = (held(version_set, VERSION_SET_PROPERTIES) for version_set in sets)
    yield [(value["latest"], VERSION_PROPERTIES) for value in known if value is not None]


class VersionSets:
    """The version sets that one batch writes to."""

    def __init__(self, connection: Connection, held: Held) -> None:
        """Compare with what `held` returns."""
        self._connection = connection
        self._held = held
        # Versions that this batch wrote: by set and sort id, and by set and label.
        self._written: dict[tuple[str, str, str], str] = {}

    def effects(self, urn: str, aspect: str, value: Mapping[str, Any]) -> Effects:
        """Return what the write of `value` comes down to.

        Raises:
            InvalidProposalError: a rule of version sets does not allow it.

        Cost: a SQL statement for a version.
        """
        if aspect == VERSION_PROPERTIES:
            return self._of_version(urn, value)
        return self._of_set(urn, value)

    def _of_version(self, urn: str, value: Mapping[str, Any]) -> Effects:
        version_set, sort_id = value["versionSet"], value["sortId"]
        held = self._held(version_set, VERSION_SET_PROPERTIES)
        scheme = value.get("versioningScheme", defaults(VERSION_PROPERTIES)["versioningScheme"])
        _check_type(urn, version_set)
        if held is not None:
            _check_scheme(held["versioningScheme"], scheme, sort_id)
        self._check_unique(urn, version_set, sort_id, value["version"].get("versionTag"))
        others = [
            Write(
                version_set,
                VERSION_SET_PROPERTIES,
                {"versioningScheme": scheme, "latest": urn},
                "RESTATE",
            )
        ]
        if held is not None:
            if held["latest"] == urn:
                return Effects(value)
            former = self._held(held["latest"], VERSION_PROPERTIES)
            if former is not None:
                if sort_id <= former["sortId"]:
                    return Effects(value)
                others.append(_marked(held["latest"], former, is_latest=False))
        return Effects({**value, IS_LATEST: True}, tuple(others))

    def _check_unique(self, urn: str, version_set: str, sort_id: str, label: str | None) -> None:
        keys = [(version_set, "sort id", sort_id)]
        if label is not None:
            keys.append((version_set, "label", label))
        stored = self._connection.exec_driver_sql(
            _WITH_SORT_ID_OR_LABEL, (version_set, sort_id, label)
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

        An entity that is marked as removed is in nobody's way.
        """
        value = self._held(other, VERSION_PROPERTIES)
        if value is None or value["versionSet"] != version_set:
            return False
        has_label = label is not None and value["version"].get("versionTag") == label
        if value["sortId"] != sort_id and not has_label:
            return False
        return (self._held(other, STATUS) or {}).get("removed") is not True

    def _of_set(self, urn: str, value: Mapping[str, Any]) -> Effects:
        before, latest = self._held(urn, VERSION_SET_PROPERTIES), value["latest"]
        scheme = value["versioningScheme"]
        if before is not None and before["versioningScheme"] != scheme:
            raise InvalidProposalError(
                f"Versioning Scheme cannot change. Expected Scheme: {before['versioningScheme']} "
                f"Provided Scheme: {scheme}"
            )
        version = self._held(latest, VERSION_PROPERTIES)
        if version is None:
            raise InvalidProposalError(f"Cannot set latest version to unversioned entity: {latest}")
        others = []
        if before is not None and before["latest"] != latest:
            former = self._held(before["latest"], VERSION_PROPERTIES)
            if former is not None:
                others.append(_marked(before["latest"], former, is_latest=False))
        if version.get(IS_LATEST) is False:
            others.append(_marked(latest, version, is_latest=True))
        return Effects(value, tuple(others))


def _marked(urn: str, value: Mapping[str, Any], *, is_latest: bool) -> Write:
    return Write(urn, VERSION_PROPERTIES, {**value, IS_LATEST: is_latest}, "RESTATE")


def _check_type(urn: str, version_set: str) -> None:
    expected = key_aspect(version_set)[1]["entityType"]
    if entity_type_of(urn) != expected:
        raise InvalidProposalError(
            f"Version Set specified entity type does not match, expected type: {expected}"
        )


def _check_scheme(expected: str, scheme: str, sort_id: str) -> None:
    if scheme != expected:
        raise InvalidProposalError(
            "Versioning Scheme does not match Version Set properties. "
            f"Expected Scheme: {expected} Provided Scheme: {scheme}"
        )
    if scheme == _GENERATED and _GENERATED_SORT_ID.fullmatch(sort_id) is None:
        raise InvalidProposalError(
            f"Invalid sortID for Versioning Scheme. ID: {sort_id} Scheme: {scheme}"
        )
