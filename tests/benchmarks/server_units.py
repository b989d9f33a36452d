"""What DataHub's server does with the proposals that it takes, counted in place of a server.

A server's time is its writes to the database, its messages and its index. Their numbers do not vary
with the machine, so they were counted on a real server, and `RULES` has what each thing costs that
may happen to a proposal. Messages are the change logs, the platform events and the proposals that
wait in the queue.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

UNITS: Final = ("rows", "messages", "documents", "searches", "locking reads")


class Rule(NamedTuple):
    """What one thing costs the server, and where that was seen.

    Attributes:
        rows: rows that are added to the table of aspects.
        logs: change logs.
        events: platform events.
        queued: proposals that wait in the queue.
        documents: documents that are written to the search index.
        searches: searches in that index.
        locking_reads: reads that lock what they find.
    """

    source: str
    rows: int = 0
    logs: int = 0
    events: int = 0
    queued: int = 0
    documents: int = 0
    searches: int = 0
    locking_reads: int = 0

    def units(self) -> Mapping[str, int]:
        """Return the cost in `UNITS`."""
        messages = self.logs + self.events + self.queued
        counts = (self.rows, messages, self.documents, self.searches, self.locking_reads)
        return dict(zip(UNITS, counts, strict=True))


RULES: Final = {
    "new aspect": Rule(
        "counted: a run of four aspects is five rows with its key, and five documents",
        rows=1,
        logs=1,
        documents=1,
    ),
    "changed aspect": Rule("the former value becomes a row", rows=1, logs=1, documents=1),
    "equal aspect": Rule("seen: it is logged and indexed again", logs=1, documents=1),
    "time series": Rule("a document of an index, no row", logs=1, documents=1),
    "run id": Rule("counted: ten documents where all five rows have one", documents=1),
    "new entity": Rule("counted: a run of four aspects is eight messages", events=1),
    "owners": Rule("counted: three of the eight, one of them its change log", events=2),
    "aspects left to the server": Rule(
        "counted: one read of an entity without `dataPlatformInstance`", locking_reads=1
    ),
    "new version": Rule(
        "counted: 16 versions in two requests are 98 rows and 221 messages; the index is asked"
        " whether the label is another's",
        events=6,
        searches=1,
    ),
    "new version set": Rule("counted: what those two requests leave for it", events=11),
    # The server corrects both versions later, in several steps that overtake each other.
    "another latest version": Rule(
        "counted: 16 versions, one a request, are 328 rows and 690 messages; a fifteenth of the"
        " difference, rounded",
        rows=15,
        logs=15,
        events=16,
        documents=15,
    ),
    "queued proposal": Rule('seen: `async: "true"` puts each into the queue', queued=1),
    "search": Rule("a request of the client", searches=1),
}
"""What each thing costs that may happen to a proposal, or to its entity."""

_BROWSABLE = frozenset({"container", "dataset", "mlFeature", "mlFeatureTable", "mlModel"})
_ON_PLATFORM = frozenset({"dataset", "mlFeatureTable", "mlModel", "mlModelGroup"})
DEFAULTS: Final = {
    "browsePathsV2": _BROWSABLE | {"mlModelGroup"},
    "dataPlatformInstance": _ON_PLATFORM,
}
"""The aspects that the server gives a new entity, and the types that get them.

Source: `DefaultAspectsUtil`, and seen for the types of machine learning.
"""

TIME_SERIES: Final = frozenset({"dataProcessInstanceRunEvent", "datasetProfile", "operation"})

Proposals = list[dict[str, Any]]


@dataclass(slots=True)
class ServerModel:
    """A server as far as its costs depend on what it has; `happened` counts by the name of a rule.

    A request counts as taken: none is refused, and its versions are compared with those before it.
    """

    happened: Counter[str] = field(default_factory=Counter)
    _values: dict[tuple[str, str], str] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)
    _latest: dict[str, str] = field(default_factory=dict)

    def units(self) -> dict[str, int]:
        """Return what all requests so far cost, in `UNITS`."""
        total: Counter[str] = Counter(dict.fromkeys(UNITS, 0))
        for name, count in self.happened.items():
            for unit, each in RULES[name].units().items():
                total[unit] += count * each
        return dict(total)

    def take(self, proposals: Proposals, *, queued: bool) -> None:
        """Count a request; `queued` proposals pass through the server's queue first."""
        if queued:
            self.happened["queued proposal"] += len(proposals)
        entities: dict[str, Proposals] = {}
        for one in proposals:
            entities.setdefault(one["entityUrn"], []).append(one)
        for urn, items in entities.items():
            if urn not in self._known:
                self._known.add(urn)
                self._create(urn, items)
            for one in items:
                self._write(urn, one)
        self._move_latest(one for one in proposals if one["aspectName"] == "versionProperties")

    def _create(self, urn: str, items: Proposals) -> None:
        """Count the key of an entity, and the aspects that the server adds to it."""
        kind = urn.split(":")[2]
        sent = {one["aspectName"] for one in items}
        added = [name for name, kinds in DEFAULTS.items() if kind in kinds and name not in sent]
        self.happened["new entity"] += 1
        self.happened["aspects left to the server"] += bool(added)
        for name in (f"{kind}Key", *added):
            # They have the system metadata of the first proposal.
            self._write(urn, {**items[0], "aspectName": name, "aspect": {"value": ""}})

    def _write(self, urn: str, one: dict[str, Any]) -> None:
        name, value = one["aspectName"], one["aspect"]["value"]
        if name in TIME_SERIES:
            self.happened["time series"] += 1
        else:
            before = self._values.get((urn, name))
            change = "new" if before is None else "equal" if before == value else "changed"
            self.happened[f"{change} aspect"] += 1
            self._values[urn, name] = value
            if name == "ownership" and change != "equal":
                self.happened["owners"] += 1
            if name == "versionProperties" and change == "new":
                self.happened["new version"] += 1
        if (one.get("systemMetadata") or {}).get("runId"):
            self.happened["run id"] += 1

    def _move_latest(self, versions: Iterable[dict[str, Any]]) -> None:
        """Count the versions of a request that are greater than the latest one before it."""
        before = dict(self._latest)
        for one in versions:
            if one["changeType"] == "PATCH":
                continue
            value = orjson.loads(one["aspect"]["value"])
            version_set, sort_id = value["versionSet"], value["sortId"]
            if version_set not in self._known:
                self._known.add(version_set)
                self.happened["new version set"] += 1
                for name in ("versionSetKey", "versionSetProperties"):
                    self._write(version_set, {**one, "aspectName": name})
            elif version_set in before and sort_id > before[version_set]:
                self.happened["another latest version"] += 1
            self._latest[version_set] = max(sort_id, self._latest.get(version_set, ""))
