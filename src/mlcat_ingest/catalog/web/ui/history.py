"""The history of one entity: who wrote which version of its aspects when, and what changed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from mlcat_ingest.catalog.schema.values import NO_RUN, SYSTEM_ACTOR
from mlcat_ingest.catalog.store import history
from mlcat_ingest.catalog.store.history import NO_PERSON, VersionInfo, VersionKey
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.facts import Piece
from mlcat_ingest.catalog.web.ui.lists import PAGE_ROWS, Pager, names_of, pager
from mlcat_ingest.catalog.web.ui.text import entity_href, moment
from mlcat_ingest.core.text import cut, in_words, json_or_none
from mlcat_ingest.metadata.aliases import decode
from mlcat_ingest.metadata.aspects import GLOBAL_TAGS, TEST_RESULTS, VERSION_PROPERTIES
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.diff import AspectDiff, Sign, diff_aspect, value_beside, value_text
from mlcat_ingest.metadata.proposal import custom_properties
from mlcat_ingest.metadata.reserved import ALIAS_LOG

COMPARED_CHARS: Final = 800_000
"""Most characters of values that are compared on one page."""

CHANGES: Final = 50
"""Most changes that are shown of one version."""

_INTERNAL: Final = "Only internal properties of mlcat-ingest changed."
_VALUE_CHARS: Final = 2_000
_LABEL_CHARS: Final = 200
_RUN: Final = "urn:li:dataHubExecutionRequest:"


@dataclass(frozen=True, slots=True)
class _ChangedValue:
    """One change: of the entry `label` of a field, or of the whole field."""

    sign: Sign
    field: str
    label: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class ShownVersion:
    """A version of an aspect and what it changed; `more` changes are not shown.

    `moves` are those of aliases and stages.
    `note` says what no change shows. A version that is too large to be compared on this page is
    compared on that at `compare_href`.
    """

    aspect: str
    version: int
    created: bool = False
    note: str = ""
    moves: tuple[str, ...] = ()
    changes: tuple[_ChangedValue, ...] = ()
    more: int = 0
    compare_href: str = ""

    @property
    def is_internal(self) -> bool:
        """Whether only internal properties changed."""
        return self.note == _INTERNAL


@dataclass(frozen=True, slots=True)
class _Revision:
    """The versions that one writer wrote at one moment."""

    when: str
    writers: tuple[Piece, ...]
    versions: tuple[ShownVersion, ...]


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of the history of an entity, the newest revision first."""

    revisions: tuple[_Revision, ...]
    pager: Pager


def history_page(store: Store, urn: str, start: int) -> HistoryPage:
    """Return a page of the versions of the aspects of `urn`.

    Cost: half a dozen SQL statements, and the comparison of at most `COMPARED_CHARS` characters.
    """
    total, found = store.read(history.versions, urn, start, PAGE_ROWS)
    hrefs = [entity_href(urn, tab="history", start=start + at) for at in range(len(found))]
    # What is too large even as the first of a page is compared on none.
    hrefs[:1] = [""] * len(hrefs[:1])
    shown = compared(store, found, hrefs, CHANGES)
    writers = writers_of(store, found)
    revisions = []
    for (when, by), group in groupby(
        zip(found, writers, shown, strict=True), lambda entry: (entry[0].modified_ms, entry[1])
    ):
        revisions.append(_Revision(moment(when), by, tuple(version for *_, version in group)))
    return HistoryPage(
        tuple(revisions),
        pager(total, start, len(found), lambda at: entity_href(urn, tab="history", start=at)),
    )


def compared(
    store: Store, found: Sequence[VersionInfo], hrefs: Sequence[str], changes: int
) -> list[ShownVersion]:
    """Return what versions changed, each at most so many `changes`; or where that is shown."""
    values = values_of(store, found)
    return [
        _version(entry, href, values, changes) for entry, href in zip(found, hrefs, strict=True)
    ]


def writers_of(store: Store, found: Sequence[VersionInfo]) -> list[tuple[Piece, ...]]:
    """Return who wrote each version: the recipe and its run, the person, or a tool.

    Cost: two SQL statements.
    """
    named = [urn for entry in found for urn in _named_by(entry)]
    names, known = names_of(store, named), store.exists(named)
    pieces = {
        urn: Piece(
            f"run {name}" if urn.startswith(_RUN) else name,
            entity_href(urn) if urn in known else None,
        )
        for urn, name in names.items()
    }
    return [_writers(entry, pieces) for entry in found]


def values_of(
    store: Store, found: Sequence[VersionInfo]
) -> Mapping[VersionKey, Mapping[str, Any] | None]:
    """Return the values of versions and of those before them; None for those not compared."""
    keys = dict.fromkeys(key for entry in found for key in keys_of(entry))
    sizes = store.read(history.sizes, keys)
    chosen: set[VersionKey] = set()
    left = COMPARED_CHARS
    for entry in found:
        wanted = sizes.keys() & set(keys_of(entry)) - chosen
        size = sum(sizes[key] for key in wanted)
        if size <= left:
            left -= size
            chosen |= wanted
    texts = store.read(history.texts, chosen)
    return dict.fromkeys(sizes) | {key: loads(text) for key, text in texts.items()}


def keys_of(entry: VersionInfo) -> tuple[VersionKey, VersionKey]:
    """Return what tells a version, and the one before it, from others."""
    aspect = entry.entity_id, entry.aspect
    return (*aspect, entry.version), (*aspect, entry.version - 1)


def _version(
    entry: VersionInfo,
    href: str,
    values: Mapping[VersionKey, Mapping[str, Any] | None],
    most: int,
) -> ShownVersion:
    keys = [key for key in keys_of(entry) if key in values]
    new, *before = (values[key] for key in keys)
    note = "The aspect was deleted afterwards." if entry.deleted else ""
    if new is None or None in before:
        note = f"Too large to be compared. {note}" if not href else note
        return ShownVersion(entry.aspect, entry.version, note=note.strip(), compare_href=href)
    older = before[0] if before else None
    diff = diff_aspect(entry.aspect, older, new)
    old, now = (decode(custom_properties(one or {}).get(ALIAS_LOG)) for one in (older, new))
    moves = [f"alias {one.alias}: {one.holder}, {one.window}" for one in now if one not in old]
    changes = []
    for change in _changes(diff) if diff else ():
        if move := _move(entry.aspect, change):
            moves.append(move)
        else:
            changes.append(change)
    if diff is None and not moves:
        note = f"{_INTERNAL} {note}".strip()
    return ShownVersion(
        entry.aspect,
        entry.version,
        not before,
        note,
        tuple(moves[:most]),
        tuple(changes[:most]),
        max(0, len(changes) - most) + max(0, len(moves) - most),
    )


_MARKS: Final = {
    (VERSION_PROPERTIES, "aliases"): re.compile("()(.+)"),
    (GLOBAL_TAGS, "tags"): re.compile(r"urn:li:tag:mlflow_(staging|production|archived)()"),
}
"""The entries of a version that are its aliases, or the tags of its stages."""


def _move(aspect: str, change: _ChangedValue) -> str:
    """Return the move of an alias or a stage that a change is, or an empty text."""
    mark = _MARKS.get((aspect, change.field))
    match = mark.fullmatch(change.label) if mark and change.sign != "changed" else None
    if match is None:
        return ""
    what = f"stage {match[1]}" if match[1] else f"alias {match[2]}"
    return f"{what} {'set' if change.sign == 'added' else 'taken away'}"


def _changes(diff: AspectDiff) -> Iterator[_ChangedValue]:
    for field in diff.fields:
        for change in field.changes:
            # Of entries without a key the label is the whole entry.
            label = "" if isinstance(json_or_none(change.label), dict) else change.label
            values = _differing(change.old, change.new)
            words = [_in_words(value_beside(label, field.field, one)) for one in values]
            if words[0] == words[1]:  # they differ as JSON alone
                words = [value_text(label, field.field, one) for one in values]
            old, new = (cut(text, _VALUE_CHARS) for text in words)
            yield _ChangedValue(change.sign, field.field, cut(label, _LABEL_CHARS), old, new)
        if field.reordered and not field.changes:
            yield _ChangedValue("changed", field.field, "", "", "in another order")


def _in_words(value: Any) -> str:
    """Return a value in words; a text of JSON by what it holds."""
    return in_words((json_or_none(value) if str(value)[:1] in "[{" else None) or value)


def _differing(old: Any, new: Any) -> tuple[Any, Any]:
    """Return two values; of two records only the fields in which they differ."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return old, new
    pairs = ((old, new), (new, old))
    kept = [{k: v for k, v in one.items() if k not in two or two[k] != v} for one, two in pairs]
    return kept[0], kept[1]


def _named_by(entry: VersionInfo) -> Iterator[str]:
    """Yield the URNs that tell who wrote a version: the person, and the run of a recipe."""
    if entry.modified_by not in NO_PERSON:
        yield entry.modified_by
    run = entry.system_metadata.get("runId")
    if isinstance(run, str) and run not in {"", NO_RUN}:
        yield f"{_RUN}{run}"


def _writers(entry: VersionInfo, named: Mapping[str, Piece]) -> tuple[Piece, ...]:
    recipe = entry.system_metadata.get("pipelineName")
    pieces = [Piece(f"recipe {recipe}")] if isinstance(recipe, str) and recipe else []
    pieces += [named[urn] for urn in _named_by(entry)]
    if pieces:
        return tuple(pieces)
    by_catalog = entry.modified_by == SYSTEM_ACTOR or entry.aspect == TEST_RESULTS
    return (Piece("the catalog" if by_catalog else "a person or tool"),)
