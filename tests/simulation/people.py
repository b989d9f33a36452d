"""People who edit the simulated catalog, and the ledger of what they wrote."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from mlcat_ingest.metadata.aspects import ML_MODEL_GROUP_PROPERTIES
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.reserved import OWN_PREFIX, RENAMED_TO, SOURCE_KEY
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.rules import properties_aspect
from mlcat_ingest.sources.mlflow.values.records import PropertyKey
from simulation.catalog import Storage

MARK: Final = "person-"
"""Every entry of a person has it, and none of a source has."""

OWN_TYPES: Final = frozenset({"mlModel", "mlModelGroup"})
"""Types of entities that are merged, and go with their source; others are only referred to."""

Place: TypeAlias = tuple[str, str, str]
"""URN, aspect and field."""

Ledger: TypeAlias = dict[Place, set[str]]
"""The marks of people's entries."""

_STAMP: Final = {"time": 0, "actor": "urn:li:corpuser:person"}

_ENTRIES: Final[Mapping[tuple[str, str], Callable[[str], Any]]] = {
    ("globalTags", "tags"): lambda name: {"tag": f"urn:li:tag:{name}"},
    ("glossaryTerms", "terms"): lambda name: {"urn": f"urn:li:glossaryTerm:{name}"},
    ("ownership", "owners"): lambda name: {
        "owner": f"urn:li:corpuser:{name}",
        "type": "DATAOWNER",
    },
    ("institutionalMemory", "elements"): lambda name: {
        "url": f"http://{name}",
        "description": name,
        "createStamp": _STAMP,
    },
}

_IDENTITY: Final = frozenset(
    {
        *(PropertyKey.EXPERIMENT_ID, PropertyKey.RUN_ID, PropertyKey.MODEL_ID),
        *(PropertyKey.REGISTERED_MODEL, PropertyKey.VERSION),
    }
)
"""Custom properties of which one leads from an entity to its object."""

_STAMPED: Final = {"glossaryTerms": {"auditStamp": _STAMP}}


def is_persons(entry: object) -> bool:
    return MARK in str(entry)


@dataclass
class People:
    """What people do; `ledger` holds the entries of theirs that nobody of them took away."""

    storage: Storage
    chance: random.Random
    ledger: Ledger = field(default_factory=dict)
    without_base: set[str] = field(default_factory=set)
    """Entities whose base or object somebody's edit dropped: what we wrote by then may stay."""
    undated: set[str] = field(default_factory=set)
    """Entities whose time of creation somebody's edit dropped: it told objects of one id apart."""
    prefer_groups: bool = False
    groups: dict[str, str] = field(default_factory=dict)
    """The experiment of each entry that somebody put on its group; the entry moves with that."""
    made: int = 0
    touched_ours: bool = False
    """True once somebody changed an entry of ours, which only a full pass finds."""

    def copy(self) -> Ledger:
        return {place: set(entries) for place, entries in self.ledger.items()}

    def edit(self, *, gently: bool) -> str | None:
        """Change something that is there; `gently` only what is people's. Return what it was."""
        urns = [urn for urn in self.storage.stored if entity_type_of(urn) in OWN_TYPES]
        if not urns:
            return None
        if self.prefer_groups and self.chance.random() < 0.7:
            urns = [urn for urn in urns if entity_type_of(urn) == "mlModelGroup"] or urns
        urn = self.chance.choice(urns)
        kinds: list[Callable[[str], str | None]] = [self._add] * 6 + [self._take_back] * 2
        if not gently:
            kinds += [self._take_ours] * 2
            kinds += [self._hide, self._describe, self._drop_base, self._delete]
            kinds += [self._replace_version] * 2
        return self.chance.choice(kinds)(urn)

    def _value(self, urn: str, name: str) -> Aspect:
        return self.storage.stored[urn].get(name, {})

    def _experiment(self, urn: str) -> str | None:
        """Return the experiment of a group that says that it is one, and was not copied."""
        custom = self._value(urn, ML_MODEL_GROUP_PROPERTIES).get("customProperties") or {}
        if SOURCE_KEY not in custom or RENAMED_TO in custom:
            return None
        return custom.get(PropertyKey.EXPERIMENT_ID)

    def _part_from_experiment(self, urn: str) -> None:
        """Take note that nobody can tell any more what was on this group, or was copied to it."""
        experiment = self._experiment(urn)
        self.groups = {mark: one for mark, one in self.groups.items() if one != experiment}

    def _add(self, urn: str) -> str:
        self.made += 1
        mark = f"{MARK}{self.made}"
        experiment = self._experiment(urn)
        if experiment and not self._value(urn, "status").get("removed"):
            self.groups[mark] = experiment
        main = properties_aspect(entity_type_of(urn))
        at = self.chance.randrange(len(_ENTRIES) + 1)
        if at == len(_ENTRIES):
            name, listed = main, "customProperties"
            before = self._value(urn, name)
            value = {**before, listed: {**(before.get(listed) or {}), mark: mark}}
        else:
            (name, listed), make = list(_ENTRIES.items())[at]
            before = {**_STAMPED.get(name, {}), **self._value(urn, name)}
            value = {**before, listed: [*(before.get(listed) or ()), make(mark)]}
        self.storage.put(urn, name, value)
        self.ledger.setdefault((urn, name, listed), set()).add(mark)
        return f"adds {mark} to {name} of {urn}"

    def _take_back(self, urn: str) -> str | None:
        places = [place for place, entries in self.ledger.items() if place[0] == urn and entries]
        if not places:
            return None
        place = self.chance.choice(places)
        mark = self.chance.choice(sorted(self.ledger[place]))
        _, name, listed = place
        value = self._value(urn, name)
        entries = value.get(listed) or ()
        if isinstance(entries, Mapping):
            left: object = {key: one for key, one in entries.items() if key != mark}
        else:
            left = [one for one in entries if mark not in _marks(one)]
        self.storage.put(urn, name, {**value, listed: left})
        self.ledger[place].discard(mark)
        return f"takes {mark} back from {name} of {urn}"

    def _take_ours(self, urn: str) -> str | None:
        lists = [
            (name, listed)
            for name, value in self.storage.stored[urn].items()
            for listed, entries in value.items()
            if entries and isinstance(entries, (list, dict)) and name != "browsePathsV2"
        ]
        if not lists:
            return None
        name, listed = self.chance.choice(lists)
        value = self._value(urn, name)
        entries = value[listed]
        if isinstance(entries, list):
            ours = [one for one in entries if not is_persons(one)]
            gone = self.chance.choice(ours) if ours else None
            left: object = [one for one in entries if one is not gone]
        else:
            keys = [key for key in entries if not key.startswith((OWN_PREFIX, MARK))]
            gone = self.chance.choice(keys) if keys else None
            left = {key: one for key, one in entries.items() if key != gone}
        if gone is None:
            return None
        self.touched_ours = True
        if isinstance(gone, str) and gone in _IDENTITY:
            self._part_from_experiment(urn)
            self.without_base.add(urn)
        if listed == "created":
            self.undated.add(urn)
        self.storage.put(urn, name, {**value, listed: left})
        return f"takes {gone} of ours away from {name} of {urn}"

    def _hide(self, urn: str) -> str:
        self.touched_ours = True
        removed = not self._value(urn, "status").get("removed")
        self.storage.put(urn, "status", {"removed": removed})
        return f"{'hides' if removed else 'shows'} {urn}"

    def _describe(self, urn: str) -> str:
        self.touched_ours = True
        main = properties_aspect(entity_type_of(urn))
        self.storage.put(urn, main, {**self._value(urn, main), "description": f"{MARK}text"})
        return f"describes {urn}"

    def _drop_base(self, urn: str) -> str | None:
        main = properties_aspect(entity_type_of(urn))
        value = self._value(urn, main)
        custom = value.get("customProperties") or {}
        left = {key: one for key, one in custom.items() if not key.startswith(OWN_PREFIX)}
        if left == custom:
            return None
        self.touched_ours = True
        self.without_base.add(urn)
        self._part_from_experiment(urn)
        self.storage.put(urn, main, {**value, "customProperties": left})
        return f"writes over {main} of {urn}, base and all"

    def _replace_version(self, urn: str) -> str | None:
        """Upsert a version as DataHub's own source does, which drops what is computed."""
        version = self._value(urn, "versionProperties")
        if "isLatest" not in version:
            return None
        self.touched_ours = True
        left = {name: value for name, value in version.items() if name != "isLatest"}
        self.storage.put(urn, "versionProperties", left)
        return f"replaces the version of {urn}"

    def _delete(self, urn: str) -> str:
        self.touched_ours = True
        self._part_from_experiment(urn)
        self.storage.delete(urn)
        for place in [one for one in self.ledger if one[0] == urn]:
            del self.ledger[place]
        return f"deletes {urn}"


def _marks(entry: object) -> set[str]:
    """Return the marks that an entry of a list holds."""
    texts = str(entry).replace("'", " ").replace(":", " ").replace("/", " ").split()
    return {text.strip(",}{") for text in texts if text.startswith(MARK)}
