"""A catalog in memory that computes the latest version of a set, as DataHub's server does."""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mlcat_ingest.client.base import CatalogFacts
from mlcat_ingest.errors import AspectRejectedError
from mlcat_ingest.metadata.proposal import Aspect, Entity, Proposal
from support.fakes import FakeSink, model_urn

VERSION, VERSION_SET = "versionProperties", "versionSetProperties"
SCHEME = "LEXICOGRAPHIC_STRING"


@dataclass
class VersioningSink(FakeSink):
    """Compares a version with the latest one before the request, and marks both ends of a move.

    An upsert leaves out `isLatest`, and drops it. `status` moves nothing.
    """

    place: str | None = "fake://catalog"
    _request: list[Proposal] = field(default_factory=list)
    _former: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    """The latest version of each set before that request, and its sort id."""

    @property
    def facts(self) -> CatalogFacts:
        return replace(super().facts, enforces_conditions=True if self.checks_versions else None)

    def _problem(self, urn: str, entity: Sequence[Proposal]) -> str | None:
        for one in entity:
            if (
                one.aspect_name == VERSION
                and one.change_type == "UPSERT"
                and "isLatest" in one.aspect
            ):
                return "IsLatest should not be specified, this is a computed field."
            if one.change_type == "PATCH" and self._version(urn, one.aspect_name) < 0:
                return (
                    f"Patch not supported for aspect with name {one.aspect_name}. Default aspect is"
                    f" required because no aspect currently exists for urn {urn}"
                )
            if one.aspect_name == VERSION_SET and self._version(one.aspect["latest"], VERSION) < 0:
                return "Cannot set latest version to unversioned entity"
        return super()._problem(urn, entity)

    def _store(self, urn: str, entity: Sequence[Proposal]) -> None:
        for one in entity:
            before = self.stored.get(urn, {}).get(one.aspect_name)
            super()._store(urn, [one])
            if one.aspect_name == VERSION and one.change_type != "DELETE":
                self._compare(urn, self.stored[urn][VERSION])
            elif one.aspect_name == VERSION_SET:
                former = None if before is None else before["latest"]
                self._move(former, one.aspect["latest"])

    def _compare(self, urn: str, version: Aspect) -> None:
        version_set = version["versionSet"]
        if self._request is not self.writes[-1]:
            self._request, self._former = self.writes[-1], {}
        if version_set not in self._former:
            held = self.stored.get(version_set, {}).get(VERSION_SET)
            latest = None if held is None else held["latest"]
            last = self.stored.get(latest or "", {}).get(VERSION, {})
            self._former[version_set] = (latest, last.get("sortId", ""))
        former, sort_id = self._former[version_set]
        if former != urn and sort_id < version["sortId"]:
            self._put(version_set, VERSION_SET, {"latest": urn, "versioningScheme": SCHEME})
            self._move(former, urn)

    def _move(self, former: str | None, latest: str) -> None:
        if former == latest:
            return
        for urn, is_latest in ((former, False), (latest, True)):
            version: Any = self.stored.get(urn or "", {}).get(VERSION)
            if urn and version is not None and version.get("isLatest") is not is_latest:
                self._put(urn, VERSION, {**version, "isLatest": is_latest})

    def latest(self) -> dict[str, tuple[str, list[str]]]:
        """Return of each set its latest version, and the live ones that searches take for it."""
        return {
            version_set: (
                aspects[VERSION_SET]["latest"],
                sorted(
                    urn
                    for urn, other in self.stored.items()
                    if other.get(VERSION, {}).get("versionSet") == version_set
                    and other[VERSION].get("isLatest") is not False
                    and not other.get("status", {}).get("removed")
                ),
            )
            for version_set, aspects in self.stored.items()
            if VERSION_SET in aspects
        }


@dataclass
class WatchingSink(VersioningSink):
    """Looks after each write if a search finds the greatest version of each set, and no other."""

    slow: bool = False
    wrong: list[str] = field(default_factory=list)
    waiting_s: random.Random = field(default_factory=lambda: random.Random(7))

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        if self.slow:
            time.sleep(self.waiting_s.uniform(0, 0.002))
        return super().write(proposals)

    def _store(self, urn: str, entity: Sequence[Proposal]) -> None:
        # A version is written before the next request is, so this looks between two of them, too.
        if self._request is not self.writes[-1]:
            self.look()
        super()._store(urn, entity)

    def look(self) -> None:
        for version_set, (latest, found) in self.latest().items():
            versions = [aspects[VERSION] for aspects in self.stored.values() if VERSION in aspects]
            of_set = [one["sortId"] for one in versions if one["versionSet"] == version_set]
            if found != [latest] or self.stored[latest][VERSION]["sortId"] != max(of_set):
                self.wrong.append(f"{version_set}: {latest} of {len(of_set)}, found {found}")


def version_of(name: str, number: int, **properties: object) -> Entity:
    return Entity(
        model_urn(f"{name}_{number}"),
        {
            VERSION: {
                "versionSet": f"urn:li:versionSet:({name},mlModel)",
                "version": {"versionTag": str(number)},
                "sortId": f"{number:010}",
                "versioningScheme": SCHEME,
                "aliases": [],
            },
            "mlModelProperties": {"name": f"{name}_{number}", **properties},
        },
    )
