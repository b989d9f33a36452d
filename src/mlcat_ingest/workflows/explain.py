"""The explanation of one entity: the writer of each entry, its record, and its next run.

A recipe's entries are those that its base on the entity claims. For the others there is what the
catalog noted of the write that brought them, found in the version history of the aspect.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

from mlcat_ingest.client.base import AspectWrite, Catalog, Reads, StoredAspect, StoredEntity
from mlcat_ingest.errors import CatalogRequestError, RecipeError
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.reserved import SOURCE_KEY
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.applied import (
    NOTHING,
    AppliedFields,
    Base,
    bases_by_writer,
    fingerprint,
    fingerprints_in,
    is_own,
    key_fingerprint,
)
from mlcat_ingest.pipeline.merge.provenance import (
    custom_properties,
    is_removed,
    stored_properties,
)
from mlcat_ingest.pipeline.merge.retract import OF_THE_SERVICE
from mlcat_ingest.pipeline.merge.rules import (
    COLLECTIONS,
    COMPUTED,
    UNOWNED,
    keys_of,
    same_json,
    single_fields,
)
from mlcat_ingest.pipeline.report.labels import label_of
from mlcat_ingest.pipeline.write.conflicts import MAX_VERSIONS
from mlcat_ingest.workflows.plan import Plan
from mlcat_ingest.workflows.plan_diff import ABSENT, Action, Change, entries_of

_NOT_FOUND: Final = 404

WriterKind = Literal["recipe", "person or tool", "service", "anyone"]
"""The kind of writer of an entry; `anyone`: nobody owns it, such as the mark of removal."""

_STAMPS: Final = ("attribution", "createStamp", "auditStamp")
"""Fields of an entry that say who added it, and when."""


class EntryKey(NamedTuple):
    """The place of an entry in an aspect; the label is empty for a field of one value."""

    field: str
    label: str


@dataclass(frozen=True, slots=True)
class ExplainedEntry:
    """One entry of a collection, or the one value of a field, with its writers.

    `recipes` claim it; `changed_since` wrote the field once, and it holds another value now.
    `write` is the write that brought this value. With `or_earlier` it is the oldest one that the
    catalog still keeps, and already had the value.
    """

    label: str
    value: Any
    kind: WriterKind
    recipes: tuple[str, ...] = ()
    changed_since: tuple[str, ...] = ()
    write: AspectWrite | None = None
    or_earlier: bool = False


@dataclass(frozen=True, slots=True)
class ExplainedField:
    """A field with its entries, one value unless it is a `collection`.

    `missing` counts, by recipe, entries of a collection that are claimed and not there.
    """

    name: str
    collection: bool
    entries: tuple[ExplainedEntry, ...]
    missing: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ExplainedAspect:
    """An aspect with its fields; `version` is None where the catalog names none."""

    name: str
    version: str | None
    fields: tuple[ExplainedField, ...]


@dataclass(frozen=True, slots=True)
class NextRun:
    """The effect of a recipe's next run on the entity; `action` is None where it stays as it is.

    `reads` says how each place is read. `changes` are those of an aspect's entries.
    """

    recipe: str
    action: Action | None
    reads: tuple[str, ...]
    changes: Mapping[str, Mapping[EntryKey, Change]]


@dataclass(frozen=True, slots=True)
class Explanation:
    """An entity, entry by entry.

    `recipes` maps each recipe with a base on it to the number of entries that the base claims, None
    for a base that is not readable. `sources` and `url` name the record that it comes from.
    """

    urn: str
    label: str | None
    removed: bool
    sources: tuple[str, ...]
    url: str | None
    recipes: Mapping[str, int | None]
    aspects: tuple[ExplainedAspect, ...]
    next_run: NextRun | None = None


def explain(catalog: Reads, urn: str, aspects: Collection[str]) -> Explanation:
    """Return the explanation of what `catalog` holds of `urn` in `aspects`.

    Raises:
        CatalogRequestError: the catalog does not have the entity, or refused to be read.
        MlcatError: it cannot be read.

    Cost: a request, and one for each version back until the origin of every entry is known; at most
    21.
    """
    stored = catalog.read_many([urn], aspects).get(urn)
    if not stored:
        raise CatalogRequestError(f"the catalog has no {urn}", status=_NOT_FOUND, urn=urn)
    properties = stored_properties(urn, stored) or NOTHING
    custom = custom_properties(properties)
    bases = bases_by_writer(custom)
    origins = _Origins(catalog, urn, stored)
    sources, url = custom.get(SOURCE_KEY), properties.get("externalUrl")
    return Explanation(
        urn,
        label_of(urn, properties),
        is_removed(stored),
        tuple(sources.split(",")) if isinstance(sources, str) else (),
        url if isinstance(url, str) else None,
        {writer: None if base is None else _count(base) for writer, base in bases.items()},
        tuple(
            ExplainedAspect(name, one.version, tuple(_fields(name, one.value, bases, origins)))
            for name, one in sorted(stored.items())
            if name != key_aspect_name(entity_type_of(urn))
        ),
    )


def explain_in_sink(sink: Catalog, urn: str, aspects: Collection[str]) -> Explanation:
    """Return what `explain` does of the catalog of a recipe, which is opened and closed.

    Raises:
        RecipeError: the sink keeps nothing.
        MlcatError: as `explain`; or the catalog cannot be opened.
    """
    if not sink.facts.keeps:
        raise RecipeError(
            "the sink of the recipe keeps no entities to explain",
            hint="set `sink` to the catalog",
        )
    with closing(sink):
        sink.open(read_only=True)
        return explain(sink, urn, aspects)


def with_next_run(explanation: Explanation, plan: Plan) -> Explanation:
    """Return `explanation` with what the run of `plan` would do to the entity."""
    diff = plan.entity(explanation.urn)
    changes: dict[str, dict[EntryKey, Change]] = {}
    for aspect in () if diff is None else diff.aspects:
        changes[aspect.aspect] = {
            EntryKey(one.field, change.label): change
            for one in aspect.fields
            for change in one.changes
        }
    if diff is not None and diff.action in {"remove", "revive"}:
        has_status = any(one.name == STATUS for one in explanation.aspects)
        before = explanation.removed if has_status else ABSENT
        changes[STATUS] = {EntryKey("removed", ""): Change("", before, diff.action == "remove")}
    report = plan.report
    reads = tuple(f"{one.source}: {one.why}" for one in report.passes)
    action = None if diff is None else diff.action
    return replace(explanation, next_run=NextRun(report.name, action, reads, changes))


def _count(base: Base) -> int:
    return sum(len(fingerprints_in(text)) for fields in base.values() for text in fields.values())


class _Entry(NamedTuple):
    """An entry of an aspect, and its fingerprint as a base holds it."""

    key: EntryKey
    value: Any
    fingerprint: str


def _is_collection(aspect: str, name: str, value: Any) -> bool:
    return isinstance(value, COLLECTIONS) and name not in single_fields(aspect)


def _entries(aspect: str, name: str, value: Any) -> Iterator[_Entry]:
    """Yield the entries of a field; this package's own keys are none."""
    if not _is_collection(aspect, name, value):
        yield _Entry(EntryKey(name, ""), value, fingerprint(value))
    elif isinstance(value, dict):
        for key, one in value.items():
            if not is_own(key):
                yield _Entry(EntryKey(name, key), one, key_fingerprint(key))
    else:
        keys = keys_of(aspect, name, value)
        for key, (label, one) in zip(keys, entries_of(aspect, name, value).items(), strict=True):
            yield _Entry(EntryKey(name, label), one, key_fingerprint(key))


def _fields(
    aspect: str, value: Aspect, bases: Mapping[str, Base | None], origins: "_Origins"
) -> Iterator[ExplainedField]:
    for name, content in value.items():
        claims: dict[str, frozenset[str]] = {}
        for writer, base in bases.items():
            applied: AppliedFields = (base or NOTHING).get(aspect, NOTHING)
            if text := applied.get(name):
                claims[writer] = fingerprints_in(text)
        entries = list(_entries(aspect, name, content))
        explained = tuple(_explain_entry(aspect, one, claims, origins) for one in entries)
        if not _is_collection(aspect, name, content):
            since = () if explained[0].recipes else tuple(claims)
            one_value = (replace(explained[0], changed_since=since),)
            yield ExplainedField(name, collection=False, entries=one_value, missing={})
            continue
        there = {one.fingerprint for one in entries}
        missing = {writer: len(claimed - there) for writer, claimed in claims.items()}
        missing = {writer: count for writer, count in missing.items() if count}
        yield ExplainedField(name, collection=True, entries=explained, missing=missing)


def _explain_entry(
    aspect: str, one: _Entry, claims: Mapping[str, frozenset[str]], origins: "_Origins"
) -> ExplainedEntry:
    recipes = tuple(writer for writer, claimed in claims.items() if one.fingerprint in claimed)
    origin = origins.of(aspect, one.key)
    write = None if origin is None else origin.write
    return ExplainedEntry(
        one.key.label,
        one.value,
        "recipe" if recipes else _kind(aspect, one.key.field, write),
        recipes,
        write=write if recipes else _with_stamp(one.value, write),
        or_earlier=origin is not None and not origin.exact,
    )


def _kind(aspect: str, name: str, write: AspectWrite | None) -> WriterKind:
    if name in COMPUTED.get(aspect, ()):
        return "service"
    if aspect == STATUS or name in UNOWNED.get(aspect, ()):
        return "anyone"
    is_noted = write is not None and (write.client is not None or write.run_id is not None)
    return "service" if aspect in OF_THE_SERVICE and not is_noted else "person or tool"


def _with_stamp(entry: Any, write: AspectWrite | None) -> AspectWrite | None:
    """Return the write with the actor and the time that the entry itself names."""
    stamps = [entry.get(name) for name in _STAMPS] if isinstance(entry, dict) else []
    stamp = next((one for one in stamps if isinstance(one, dict) and one.get("actor")), None)
    if stamp is None:
        return write
    write = write or AspectWrite(NOTHING)
    at_ms, source = stamp.get("time"), stamp.get("source")
    return replace(
        write,
        actor=str(stamp["actor"]),
        at_ms=at_ms if isinstance(at_ms, int) else None,
        client=source if isinstance(source, str) else write.client,
    )


@dataclass(slots=True)
class _Origin:
    """The oldest write known to have an entry as it is now; `exact` if none before it had."""

    write: AspectWrite
    exact: bool = False


@dataclass(slots=True)
class _History:
    """The walk back through the versions of one aspect; `pending` entries may be older still."""

    version: int
    pending: dict[EntryKey, Any]
    origins: dict[EntryKey, _Origin] = field(default_factory=dict)

    def look_at(self, aspect: str, write: AspectWrite) -> None:
        """Take in the version before the last one; the walk ends with the first version."""
        there = {
            one.key: one.value
            for name, value in write.value.items()
            for one in _entries(aspect, name, value)
        }
        for key, value in list(self.pending.items()):
            if key in there and same_json(there[key], value):
                self.origins[key] = _Origin(write)
            else:
                del self.pending[key]
                if key in self.origins:
                    self.origins[key].exact = True
        self.version -= 1
        if self.version == 0:
            for key in self.pending:
                self.origins[key].exact = True
        if self.version <= 0:
            self.pending.clear()


class _Origins:
    """The writes that brought the entries of an entity, read from the version histories.

    Cost: a request for each version back, for all aspects at once; at most 20.
    """

    def __init__(self, catalog: Reads, urn: str, stored: StoredEntity) -> None:
        self._histories = {name: _history_of(name, one) for name, one in stored.items()}
        for _ in range(MAX_VERSIONS):
            walks = {name: one for name, one in self._histories.items() if one.pending}
            if not walks:
                return
            writes = catalog.read_versions(urn, {name: one.version for name, one in walks.items()})
            for name, walk in walks.items():
                if name in writes:
                    walk.look_at(name, writes[name])
                else:
                    walk.pending.clear()

    def of(self, aspect: str, key: EntryKey) -> _Origin | None:
        """Return the origin of an entry, None where the catalog told nothing of it."""
        return self._histories[aspect].origins.get(key)


def _history_of(aspect: str, stored: StoredAspect) -> _History:
    # 0 stands for the latest version, where its number is not told.
    text = stored.version or ""
    version = int(text) if text.isdecimal() else 0
    return _History(
        version,
        {
            one.key: one.value
            for name, value in stored.value.items()
            for one in _entries(aspect, name, value)
        },
    )
