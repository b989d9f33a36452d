"""Edits by people: descriptions, labels, owners, links, domains, typed properties, deprecation.

An edit changes one aspect. It is worked out on the stored value, in the transaction that writes it,
so edits that are made at the same time all count. What is stored, and the sentences of refusals,
are those of a DataHub server 1.7. What makes an edit raises a BadRequestError for URNs that cannot
be right, such as the URN of a user where a tag is meant.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

from sqlalchemy.engine import Connection

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store import reads
from mlcat_ingest.catalog.store.batch import Batch
from mlcat_ingest.catalog.store.prepare import owner_type, prepare
from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.aspects import (
    DEPRECATION,
    DOMAINS,
    GLOBAL_TAGS,
    GLOSSARY_TERMS,
    INSTITUTIONAL_MEMORY,
    OWNERSHIP,
    STRUCTURED_PROPERTIES,
)
from mlcat_ingest.metadata.registry import ENTITY_TYPES
from mlcat_ingest.metadata.urn import entity_type_of

Value = Mapping[str, Any]
"""The value of an aspect, of an entry in it, or the stamp of a change: its time and actor."""

_STAMPED: Final = {
    GLOBAL_TAGS: ("tags", ""),
    GLOSSARY_TERMS: ("terms", "auditStamp"),
    INSTITUTIONAL_MEMORY: ("elements", ""),
    OWNERSHIP: ("owners", "lastModified"),
    STRUCTURED_PROPERTIES: ("properties", ""),
}
"""Aspect to its list, and to the field that says when that changed."""

_LABELS: Final = {GLOBAL_TAGS: ("tag", "tag"), GLOSSARY_TERMS: ("urn", "glossaryTerm")}
"""Aspect to the field of an entry that names the label, and to the label's entity type."""

_OWNERS: Final = {"CORP_USER": ("corpuser", "user"), "CORP_GROUP": ("corpGroup", "group")}
_OWNERSHIP: Final = "Failed to change ownership for resource"
_OWNED: Final = f"{_OWNERSHIP} {{urn}}. Resource does not exist."
_LABEL: Final = "Failed to validate label with urn"
_LINKS: Final = "Failed to change institutional memory for resource"
_LINKED: Final = f"{_LINKS} {{urn}}. Resource does not exist."
_PROPERTIES: Final = "Failed to update the structured properties of {urn}."
_RESOURCE: Final = "Failed to update resource with urn {urn}. Entity does not exist."


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one aspect.

    `change` takes the stored value, empty where there is none, and the stamp of now. `absent` is
    the sentence that refuses an entity that does not exist, its URN in the place of `{urn}`, and
    `named` has those for entities that are referred to. With an `expected_version`, `NOT_STORED`
    for none, the edit is for that version only. `first` makes an entity that it refers to.
    """

    aspect: str
    change: Callable[[Value, Value], Value]
    absent: str
    named: Mapping[str, str] = field(default_factory=dict)
    expected_version: str | None = None
    first: Write | None = None


def make_edits(
    connection: Connection, urns: Collection[str], edits: Sequence[Edit], actor: str
) -> None:
    """Make `edits` of each of `urns`; one that changes nothing makes no new version.

    Raises:
        BadRequestError: an entity does not exist.
        InvalidProposalError: an entity cannot have the aspect, or that value of it.
        VersionConflictError: an edit found another version than it expects.
    """
    Batch(connection, actor).apply([prepare(edit.first) for edit in edits if edit.first])
    named = {urn for edit in edits for urn in edit.named}
    known = reads.existing(connection, named)
    stored = reads.get_many(connection, urns, {edit.aspect for edit in edits})
    stamp = {"time": now_ms(), "actor": actor}
    writes = []
    for edit, urn in product(edits, urns):
        missing = [edit.absent] if urn not in stored else []
        missing += [sentence for other, sentence in edit.named.items() if other not in known]
        if missing:
            raise BadRequestError(missing[0].replace("{urn}", urn))
        before = stored[urn].get(edit.aspect)
        value: Value = {} if before is None else before.value
        if (changed := edit.change(value, stamp)) != value:
            version = edit.expected_version
            writes.append(Write(urn, edit.aspect, changed, expected_version=version))
    Batch(connection, actor).apply([prepare(write) for write in writes])


def describe(urn: str, text: str) -> Edit:
    """Return the edit of the description that takes precedence over that of the source."""
    aspect = description_aspect(urn)
    if aspect is None:
        raise BadRequestError(
            f"Failed to update {urn}. Entities of its type are not described here."
        )
    absent = "Failed to update {urn}. {urn} does not exist."
    return Edit(aspect, lambda value, _stamp: {**value, "description": text}, absent)


def description_aspect(urn: str) -> str | None:
    """Return the aspect in which people describe `urn`; None for a type without one."""
    kind = ENTITY_TYPES.get(_type_of(urn))
    return kind.editable if kind and (kind.editable or "").startswith("editable") else None


def add_labels(aspect: str, labels: Collection[str]) -> Edit:
    """Return the edit that adds those tags or glossary terms that are not there yet."""
    key = _label_key(aspect, labels)

    def add(entries: Sequence[Value], _stamp: Value) -> Sequence[Value]:
        stored = {entry[key] for entry in entries}
        return [*entries, *({key: new} for new in dict.fromkeys(labels) if new not in stored)]

    named = {label: f"{_LABEL} {label}. Urn does not exist." for label in labels}
    return _edit_list(aspect, add, _RESOURCE, named)


def remove_labels(aspect: str, labels: Collection[str]) -> Edit:
    """Return the edit that takes tags or glossary terms away."""
    key, removed = _label_key(aspect, labels), frozenset(labels)
    return _edit_list(
        aspect, lambda entries, _: [one for one in entries if one[key] not in removed], _RESOURCE
    )


def _label_key(aspect: str, labels: Collection[str]) -> str:
    key, kind = _LABELS[aspect]
    for label in labels:
        if _type_of(label) != kind:
            sentence = f"Urn type does not match entity type {kind}.."
            raise BadRequestError(f"{_LABEL} {label}. {sentence}")
    return key


def add_owners(owners: Iterable[Value], default_type: str | None = None) -> Edit:
    """Return the edit that adds owners, each in the place of the same owner of the same type.

    Each is an `OwnerInput` of DataHub's GraphQL; one without a type has the default, a URN.
    """
    new: dict[tuple[str, str], Value] = {}
    named: dict[str, str] = {}
    for owner in owners:
        urn, older = owner["ownerUrn"], owner.get("type")
        kind, word = _OWNERS[owner["ownerEntityType"]]
        if _type_of(urn) != kind:
            raise BadRequestError(f"{_OWNERSHIP}(s). Expected a corp {word} urn, found {urn}.")
        type_urn = owner.get("ownershipTypeUrn") or default_type or (older and owner_type(older))
        if not type_urn:
            sentence = "Expected either type or ownershipTypeUrn to be specified."
            raise BadRequestError(f"{_OWNERSHIP}(s). {sentence}")
        named[urn] = f"{_OWNERSHIP} {urn}. Resource does not exist."
        if not type_urn.startswith(owner_type("")):  # those are known without being stored
            sentence = f"Custom Ownership type with urn {type_urn} does not exist."
            named[type_urn] = f"{_OWNERSHIP}(s). {sentence}"
        entry = {"owner": urn, "typeUrn": type_urn, "type": older or "NONE"}
        new[urn, type_urn] = {**entry, "source": {"type": "MANUAL"}}

    def add(entries: Sequence[Value], _stamp: Value) -> Sequence[Value]:
        added = {key: entry for key, entry in new.items() if entry not in entries}
        return [*(one for one in entries if _owner_key(one) not in added), *added.values()]

    return _edit_list(OWNERSHIP, add, _OWNED, named)


def remove_owners(owners: Collection[str], type_urn: str | None = None) -> Edit:
    """Return the edit that takes owners away, as owners of one type or of all."""
    removed = frozenset(owners)

    def remove(entries: Sequence[Value], _stamp: Value) -> Sequence[Value]:
        return [
            entry
            for entry in entries
            if entry["owner"] not in removed or type_urn not in {None, _owner_key(entry)[1]}
        ]

    return _edit_list(OWNERSHIP, remove, _OWNED)


def _owner_key(entry: Value) -> tuple[str, str]:
    return entry["owner"], entry.get("typeUrn") or owner_type(entry["type"])


def add_link(urn: str, url: str, label: str, settings: Value | None = None) -> Edit:
    """Return the edit that adds a link to `urn`, where none of that address and label is yet."""
    scheme, colon, _ = url.partition(":")
    if scheme.lower() not in {"http", "https"} or not colon:
        named = scheme if colon else "null"
        raise BadRequestError(f"{_LINKS} {urn}. URL scheme '{named}' is not allowed.")

    def add(entries: Sequence[Value], stamp: Value) -> Sequence[Value]:
        if any((one["url"], one["description"]) == (url, label) for one in entries):
            raise BadRequestError(f"The link '{url}' with label '{label}' already exists")
        link = {"url": url, "description": label, "createStamp": stamp}
        return [*entries, {**link, "settings": settings} if settings else link]

    return _edit_list(INSTITUTIONAL_MEMORY, add, _LINKED)


def remove_link(url: str, label: str | None = None) -> Edit:
    """Return the edit that takes the links of an address away, of one `label` or of all."""

    def remove(entries: Sequence[Value], _stamp: Value) -> Sequence[Value]:
        labels = {one["description"] for one in entries} if label is None else {label}
        return [one for one in entries if one["url"] != url or one["description"] not in labels]

    return _edit_list(INSTITUTIONAL_MEMORY, remove, _LINKED)


def set_domain(domain: str | None) -> Edit:
    """Return the edit that puts an entity into one domain alone, or into none."""
    if domain is None:
        absent = "Failed to unset the Domain of Entity {urn}. Entity does not exist."
        return Edit(DOMAINS, lambda value, _: value and {**value, "domains": []}, absent)
    refusal = f"Failed to add Entity {{urn}} to Domain {domain}."
    if _type_of(domain) != "domain":
        raise BadRequestError(f"{domain!r} is not the URN of a domain.")
    return Edit(
        DOMAINS,
        lambda value, _: {**value, "domains": [domain]},
        f"{refusal} Entity does not exist.",
        {domain: f"{refusal} Domain does not exist."},
    )


def deprecate(deprecation: Value) -> Edit:
    """Return the edit that replaces the deprecation of an entity, all but its `actor`."""
    if "replacement" in deprecation:
        _type_of(deprecation["replacement"])

    def change(value: Value, stamp: Value) -> Value:
        same = {**value, **deprecation} == value and len(value) == len(deprecation) + 1
        return value if same else {**deprecation, "actor": stamp["actor"]}

    return Edit(
        DEPRECATION, change, "Failed to update deprecation for Entity {urn}. Entity does not exist."
    )


def set_properties(values: Mapping[str, Sequence[Value]], removed: Collection[str]) -> Edit:
    """Return the edit that sets structured properties to `{"string": ...}`, and removes others."""

    def put(entries: Sequence[Value], stamp: Value) -> Sequence[Value]:
        stored = {one["propertyUrn"]: one for one in entries if one["propertyUrn"] not in removed}
        for urn, new in values.items():
            former = stored.get(urn, {"propertyUrn": urn, "created": stamp})
            if former.get("values") != new:
                stored[urn] = {**former, "values": new, "lastModified": stamp}
        return list(stored.values())

    named = {urn: f"{_PROPERTIES} Property {urn} does not exist." for urn in values}
    absent = f"{_PROPERTIES} Entity does not exist."
    return _edit_list(STRUCTURED_PROPERTIES, put, absent, named)


def _edit_list(
    aspect: str,
    change_list: Callable[[Sequence[Value], Value], Sequence[Value]],
    absent: str,
    named: Mapping[str, str] | None = None,
) -> Edit:
    """Return the edit of an aspect's list; a list that stays as it is gets no stamp."""
    name, stamped = _STAMPED[aspect]

    def change(value: Value, stamp: Value) -> Value:
        before = value.get(name, [])
        after = change_list(before, stamp)
        if after == before:
            return value
        return {**value, name: after, **({stamped: stamp} if stamped else {})}

    return Edit(aspect, change, absent, named or {})


def _type_of(urn: str) -> str:
    try:
        return entity_type_of(urn)
    except InvalidUrnError as error:
        raise BadRequestError(str(error)) from error
