"""The explanation of one entity: for each field and entry, the recipes that wrote it, or others.

A recipe's entries are those that its base on the entity claims. All else was written by a person
or another tool, unless the service computes it.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import groupby, takewhile
from shlex import quote
from typing import Any, Final, Literal

from mlcat_ingest.client.base import Reads
from mlcat_ingest.core.text import cut, plural, printable
from mlcat_ingest.errors import CatalogRequestError
from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.diff import entries_of, value_text
from mlcat_ingest.metadata.entries import COLLECTIONS, keys_of, single_fields
from mlcat_ingest.metadata.labels import label_of, with_label
from mlcat_ingest.metadata.passport import Kept, KeptVersion
from mlcat_ingest.metadata.proposal import Aspect, custom_properties
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.reserved import SOURCE_KEY, is_own
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.applied import (
    NOTHING,
    Base,
    applied_key,
    bases_by_writer,
    fingerprint,
    fingerprints_in,
    key_fingerprint,
    writer_id_of,
)
from mlcat_ingest.pipeline.merge.provenance import is_removed, stored_properties
from mlcat_ingest.pipeline.merge.retract import OF_THE_SERVICE
from mlcat_ingest.pipeline.merge.rules import COMPUTED, UNOWNED
from mlcat_ingest.workflows.plan_render import Line

ENTRIES_SHOWN: Final = 50
"""Entries of one field that are shown."""

_USER: Final = "user "
_NAME_CHARS: Final = 44
_VALUE_CHARS: Final = 32

Writer = Literal["recipe", "person or tool", "service", "anyone"]
"""The kind of writer of an entry; `anyone`: nobody owns it, such as the mark of removal."""

_WRITERS: Final[Mapping[Writer, str]] = {
    "person or tool": "a person or tool",
    "service": "the catalog",
    "anyone": "no own writer",
}


@dataclass(frozen=True, slots=True)
class _ExplainedEntry:
    """One entry of a collection, or the one value of a field where `entry` is None.

    `recipes` claim it; `changed_since` wrote the value once, and it is another one now. `user` is
    the name of the one who wrote it, empty where that is not known.
    """

    aspect: str
    field: str
    entry: str | None
    value: Any
    written_by: Writer
    recipes: tuple[str, ...] = ()
    changed_since: tuple[str, ...] = ()
    user: str = ""


@dataclass(frozen=True, slots=True)
class _RecipeBase:
    """How many entries a base claims, None for one that is not readable, and the id in it."""

    entries: int | None
    writer_id: str | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """An entity, entry by entry.

    `name` is its label. `recipes` maps each recipe with a base on it to what that says. `sources`
    and `url` name the record that it comes from.
    """

    urn: str
    name: str | None
    removed: bool
    sources: tuple[str, ...]
    url: str | None
    recipes: Mapping[str, _RecipeBase]
    entries: tuple[_ExplainedEntry, ...]


def explain(
    catalog: Reads, urn: str, aspects: Collection[str], known: Mapping[str, str] = NOTHING
) -> Explanation:
    """Return the explanation of what `catalog` holds of `urn` in `aspects`.

    `known` bases, by recipe, are those of states: they count where the entity has none of them.

    Raises:
        CatalogRequestError: the catalog does not have the entity, or refused to be read.
        MlcatError: it cannot be read.

    Cost: one request.
    """
    stored = catalog.read_many([urn], aspects).get(urn)
    if not stored:
        raise CatalogRequestError(f"the catalog has no {urn}", status=HTTPStatus.NOT_FOUND, urn=urn)
    properties = stored_properties(urn, stored) or NOTHING
    remembered = {applied_key(recipe): base for recipe, base in known.items()}
    own = custom_properties(properties)
    custom = {**own, **remembered, **own}
    bases = bases_by_writer(custom)
    sources, url = custom.get(SOURCE_KEY), properties.get("externalUrl")
    key = key_aspect_name(entity_type_of(urn))
    return Explanation(
        urn,
        label_of(urn, properties),
        is_removed(stored),
        tuple(sources.split(",")) if isinstance(sources, str) else (),
        url if isinstance(url, str) else None,
        {
            writer: _RecipeBase(_count(base), writer_id_of(custom[applied_key(writer)]) or None)
            for writer, base in bases.items()
        },
        tuple(
            entry
            for name, aspect in sorted(stored.items())
            if name != key
            for entry in _entries(name, aspect.value, bases)
        ),
    )


def with_users(explanation: Explanation, kept: Kept) -> Explanation:
    """Return an explanation that names who wrote what no recipe did, by the versions `kept`."""
    entries = (replace(one, user=_user(one, kept)) for one in explanation.entries)
    return replace(explanation, entries=tuple(entries))


def _user(entry: _ExplainedEntry, kept: Kept) -> str:
    """Return the user who wrote the version in which a value came, empty for none with a name."""
    versions = kept.get(entry.aspect, ()) if entry.written_by == "person or tool" else ()

    def has_it(version: KeptVersion) -> bool:
        parts = _parts(entry.aspect, entry.field, version.value.get(entry.field))
        return any((name, part) == (entry.entry, entry.value) for name, part, _ in parts)

    same = [*takewhile(has_it, versions)]
    is_kept = same and (len(same) < len(versions) or same[-1].number == 1)
    writer = same[-1].writer if is_kept else ""
    return writer.removeprefix(_USER) if writer.startswith(_USER) else ""


def _count(base: Base | None) -> int | None:
    if base is None:
        return None
    return sum(len(fingerprints_in(text)) for fields in base.values() for text in fields.values())


def _entries(
    aspect: str, value: Aspect, bases: Mapping[str, Base | None]
) -> Iterator[_ExplainedEntry]:
    for field, content in value.items():
        claims: dict[str, frozenset[str]] = {}
        for writer, base in bases.items():
            if text := (base or NOTHING).get(aspect, NOTHING).get(field):
                claims[writer] = fingerprints_in(text)
        for entry, part, mark in _parts(aspect, field, content):
            recipes = tuple(writer for writer, claimed in claims.items() if mark in claimed)
            since = tuple(claims) if entry is None and not recipes else ()
            written_by: Writer = "recipe" if recipes else _other_writer(aspect, field)
            yield _ExplainedEntry(aspect, field, entry, part, written_by, recipes, since)


def _parts(aspect: str, field: str, content: Any) -> Iterator[tuple[str | None, Any, str]]:
    """Yield name, value and fingerprint of each entry; this package's own keys are none."""
    if not isinstance(content, COLLECTIONS) or field in single_fields(aspect):
        yield None, content, fingerprint(content)
    elif isinstance(content, dict):
        for key, part in content.items():
            if not is_own(key):
                yield key, part, key_fingerprint(key)
    else:
        named = entries_of(aspect, field, content).items()
        for key, (name, part) in zip(keys_of(aspect, field, content), named, strict=True):
            yield name, part, key_fingerprint(key)


def _other_writer(aspect: str, field: str) -> Writer:
    if field in COMPUTED.get(aspect, ()):
        return "service"
    if aspect == STATUS or field in UNOWNED.get(aspect, ()):
        return "anyone"
    return "service" if aspect in OF_THE_SERVICE else "person or tool"


def explanation_lines(explanation: Explanation, recipe: str | None = None) -> Iterator[Line]:
    """Yield the entity, the recipes that wrote to it, and its entries; `recipe` is the user's."""
    yield Line(printable(with_label(explanation.urn, explanation.name)))
    for text in _facts(explanation, recipe):
        yield Line(f"  {printable(text)}")
    for aspect, of_aspect in groupby(explanation.entries, lambda entry: entry.aspect):
        yield Line("")
        yield _row(aspect, "value", "written by")
        for field, of_field in groupby(of_aspect, lambda entry: entry.field):
            entries = list(of_field)
            if entries[0].entry is not None:
                yield Line(f"  {field}")
            for entry in entries[:ENTRIES_SHOWN]:
                name = f"  {field}" if entry.entry is None else f"    {entry.entry}"
                text = value_text(entry.entry or "", field, entry.value)
                yield _row(name, " ".join(text.split()), _writer(entry))
            if len(entries) > ENTRIES_SHOWN:
                yield Line(f"    … and {len(entries) - ENTRIES_SHOWN:,} more, see --json")


def _row(name: str, value: str, writer: str) -> Line:
    first = cut(printable(name), _NAME_CHARS).ljust(_NAME_CHARS)
    second = cut(printable(value), _VALUE_CHARS).ljust(_VALUE_CHARS)
    return Line(f"{first}  {second}  {printable(writer)}")


def _facts(explanation: Explanation, recipe: str | None) -> Iterator[str]:
    for source in explanation.sources:
        yield f"record       {source} ({SOURCE_KEY})"
    if explanation.url:
        yield f"             {explanation.url}"
    if explanation.removed:
        yield "status       soft-deleted"
    for name, base in explanation.recipes.items():
        count = base.entries
        claims = "its base is unreadable" if count is None else plural(count, "entry", "entries")
        claims += f" (writer id {base.writer_id})" if base.writer_id else ""
        hint = f"; if it no longer exists: mlcat-ingest retract --recipe-name {quote(name)}"
        yield f"recipe       {name}: {claims}{', this recipe' if name == recipe else hint}"
    if not explanation.recipes:
        yield "recipe       none: no recipe has a base here"


def _writer(entry: _ExplainedEntry) -> str:
    if entry.written_by == "recipe":
        return f"recipe {', '.join(entry.recipes)}"
    name = f"{_USER}{entry.user}" if entry.user else _WRITERS[entry.written_by]
    return f"{name}, after recipe {', '.join(entry.changed_since)}" if entry.changed_since else name
