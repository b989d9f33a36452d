"""The form of an entity's page by which users edit it, in one transaction or not at all.

A text is edited in the version that was shown: if it changed meanwhile, both texts are shown.
Entries of lists are added and removed one by one, so that those of others stay.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Annotated, Any, Final

from sqlalchemy.engine import Connection
from starlette.datastructures import QueryParams

from mlcat_ingest.catalog.errors import BadRequestError, NotFoundError, VersionConflictError
from mlcat_ingest.catalog.schema.values import AspectVersion, Write
from mlcat_ingest.catalog.store import edits
from mlcat_ingest.catalog.store.edits import Edit
from mlcat_ingest.catalog.store.prepare import owner_type
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.lists import Aspects, names_of, urns_named, value_of
from mlcat_ingest.catalog.web.ui.text import entity_type, scalar, web_address
from mlcat_ingest.errors import CodecError, MlcatError
from mlcat_ingest.metadata import urn as urns
from mlcat_ingest.metadata.aspects import (
    DEPRECATION,
    GLOBAL_TAGS,
    INSTITUTIONAL_MEMORY,
    OWNERSHIP,
    TAG_PROPERTIES,
)
from mlcat_ingest.metadata.card_sections import (
    CARD_FIELDS,
    USERS,
    card_aspects,
    card_texts,
    with_card_texts,
)
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.passport import title_and_label
from mlcat_ingest.metadata.proposal import NOT_STORED
from mlcat_ingest.metadata.registry import allows, key_aspect

_CONFLICT: Final = "Another user changed this meanwhile. Save again to replace their text."
_LISTS: Final[Mapping[str, tuple[str, Callable[..., Edit]]]] = {
    "tags": (
        GLOBAL_TAGS,
        lambda urn: edits.remove_labels(GLOBAL_TAGS, [urn]),
    ),
    "owners": (OWNERSHIP, lambda urn, kind: edits.remove_owners([urn], kind)),
    "links": (INSTITUTIONAL_MEMORY, edits.remove_link),
}
"""The lists of the form: their aspects, and what makes the edit that removes an entry."""


@dataclass(frozen=True, slots=True)
class EditForm:
    """The form, as the entity is stored, or as it was sent and refused."""

    texts: Annotated[Mapping[str, str], "what its fields contain, by their names"]
    entries: Annotated[Mapping[str, Sequence[tuple[str, str]]], "what removes one, and its text"]
    removed: Annotated[Sequence[str], "the chosen ones of what removes an entry"]
    problems: Annotated[Mapping[str, str], "why it was not saved, by field"]
    theirs: Annotated[Mapping[str, str], "what others wrote meanwhile, by field"]
    card: Annotated[Mapping[str, Mapping[str, tuple[str, str]]], "titles of texts, by aspect"]


def _text_aspects(urn: str) -> dict[str, str]:
    """Return the texts that users edit in an entity of this type, with the aspects they are in.

    An aspect of a card has several texts, and its own name here.
    """
    described = edits.description_aspect(urn)
    texts = {"description": described} if described else {}
    texts |= {"note": DEPRECATION} | {aspect: aspect for aspect in CARD_FIELDS}
    return {name: aspect for name, aspect in texts.items() if allows(entity_type(urn), aspect)}


def _texts_in(name: str, value: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts in the value of an aspect as they are in the form."""
    texts = card_texts(name, value) if name in CARD_FIELDS else {name: value.get(name)}
    return {field: _plain(text) for field, text in texts.items()}


def edited_fields(urn: str) -> list[str]:
    """Return the ids in the form of what users edit in entities of this type, empty for nothing."""
    texts = ([*CARD_FIELDS.get(name, (name,))] for name in _text_aspects(urn))
    listed = (name for name, (aspect, _) in _LISTS.items() if allows(entity_type(urn), aspect))
    return [*chain.from_iterable(texts), *listed]


def edit_form(
    store: Store, urn: str, sent: QueryParams | None, problems: Mapping[str, str]
) -> EditForm:
    """Return the form of `urn`; one that was `sent` and has `problems` keeps what was typed.

    Raises:
        NotFoundError: there is no such entity, or nothing of it is edited.
    """
    aspects = store.get_many([urn]).get(urn)
    if aspects is None or not edited_fields(urn):
        raise NotFoundError(f"nothing of {urn!r} can be edited here")
    stored: dict[str, str] = {}
    for name, aspect in _text_aspects(urn).items():
        stored |= _texts_in(name, value_of(aspects, aspect))
        stored[f"{name}_version"] = _stamp(aspects.get(aspect))
    if value_of(aspects, DEPRECATION).get("deprecated"):
        stored["deprecated"] = "on"
    conflicts = [name for name, problem in problems.items() if problem == _CONFLICT]
    texts = stored if sent is None else _typed(store, urn, sent, stored, conflicts)
    entries = {
        name: entries
        for name, entries in _entries(store, aspects).items()
        if allows(entity_type(urn), _LISTS[name][0])
    }
    removed = [] if sent is None else sent.getlist("remove")
    card = {
        aspect: {field: title_and_label(aspect, field, part) for field, part in fields.items()}
        for aspect, fields in CARD_FIELDS.items()
        if f"{aspect}_version" in stored
    }
    theirs = {
        name: "\n\n".join(f"{card[name][field][1]}: {stored[field]}" for field in card[name])
        if name in card
        else stored[name]
        for name in conflicts
    }
    if "note" in theirs:
        state = "Deprecated" if "deprecated" in stored else "Not deprecated"
        theirs["note"] = ": ".join(filter(None, (state, stored["note"])))
    return EditForm(texts, entries, removed, problems, theirs, card)


def _typed(
    store: Store,
    urn: str,
    sent: QueryParams,
    stored: Mapping[str, str],
    conflicts: Sequence[str],
) -> dict[str, str]:
    """Return the fields as they were sent; in a conflict a box that was not touched is theirs."""
    # A field keeps the version that its writer saw, until what others wrote is shown.
    seen = {f"{name}_version": stored[f"{name}_version"] for name in conflicts}
    texts = {name: _plain(sent[name]) for name in sent if name != "remove"} | seen
    for name in CARD_FIELDS.keys() & {*conflicts}:
        former, _ = _shown(store, urn, name, sent.get(f"{name}_version", ""))
        was = _texts_in(name, former)
        texts |= {field: stored[field] for field in was if texts.get(field) == was[field]}
    if "note" in conflicts:
        before, _ = _shown(store, urn, DEPRECATION, sent.get("note_version", ""))
        if bool(before.get("deprecated")) is ("deprecated" in sent):
            texts.pop("deprecated", None)
            if "deprecated" in stored:
                texts["deprecated"] = "on"
    return texts


def _stamp(found: AspectVersion | None) -> str:
    """Return what tells a version from all others, those of a deleted entity of that name too."""
    return NOT_STORED if found is None else f"{found.version}-{found.created_ms}"


def _plain(text: object) -> str:
    """Return a text as it is in a form: browsers replace some line ends and NUL."""
    return re.sub("\r\n?", "\n", scalar(text)).replace("\0", "\ufffd") if text else ""


def _entries(store: Store, aspects: Aspects) -> dict[str, list[tuple[str, str]]]:
    tags, owners, links = (value_of(aspects, aspect) for aspect, _ in _LISTS.values())
    tagged = [entry["tag"] for entry in tags.get("tags") or []]
    owned = [
        (entry["owner"], entry.get("typeUrn") or owner_type(entry["type"]))
        for entry in owners.get("owners") or []
    ]
    linked = [(entry["url"], entry["description"]) for entry in links.get("elements") or []]
    names = names_of(store, [*tagged, *(urn for urn, _ in owned)])
    words = {kind: re.split("__|:", kind)[-1].replace("_", " ") for _, kind in owned}
    return {
        "tags": [(_key("tags", urn), names[urn]) for urn in tagged],
        "owners": [(_key("owners", *one), f"{names[one[0]]}, {words[one[1]]}") for one in owned],
        "links": [(_key("links", *one), f"{one[1]}: {one[0]}") for one in linked],
    }


def _key(*parts: str) -> str:
    return dumps(parts).decode()


def save(store: Store, urn: str, sent: QueryParams, actor: str) -> Mapping[str, str]:
    """Save what was sent, all of it or nothing; return why nothing was, by field, else nothing.

    A tag or a user that the catalog does not know yet is made.
    """
    steps = list(_steps(store, urn, {name: _plain(sent[name]) for name in sent}))
    steps += [("form", partial(_removal, key)) for key in sent.getlist("remove")]
    problems: dict[str, str] = {}

    def write(connection: Connection) -> None:
        for name, make in steps:
            try:
                edits.make_edits(connection, [urn], [make()], actor)
            except VersionConflictError:
                problems[name] = _CONFLICT
            except MlcatError as error:
                problems[name] = str(error)
        if problems:
            raise BadRequestError("nothing is saved")

    with suppress(BadRequestError):
        store.change(write)
    return problems


def _steps(
    store: Store, urn: str, sent: Mapping[str, str]
) -> Iterator[tuple[str, Callable[[], Edit]]]:
    """Yield each change that was made in the form: its field, and what makes the edit."""
    yield from _text_steps(store, urn, sent)
    typed = {name: text.strip() for name, text in sent.items()}
    if typed.get("tag"):
        named = urns_named(store, "tag", typed["tag"])
        names = names_of(store, named)
        known = min(named, key=lambda urn: names[urn] != typed["tag"], default=typed["tag"])
        yield "tag", partial(_new_tag, known)
    if typed.get("owner"):
        yield "owner", lambda: _new_owner(typed["owner"], typed.get("owner_type", ""))
    if typed.get("url") or typed.get("label"):
        yield "url", lambda: _new_link(urn, typed.get("url", ""), typed.get("label", ""))


def _text_steps(
    store: Store, urn: str, sent: Mapping[str, str]
) -> Iterator[tuple[str, Callable[[], Edit]]]:
    for name, aspect in _text_aspects(urn).items():
        shown, version = _shown(store, urn, aspect, sent.get(f"{name}_version", ""))
        if name in CARD_FIELDS:
            was = _texts_in(name, shown).items()
            changed = {field: sent.get(field, "") for field, text in was}
            changed = {field: changed[field] for field, text in was if changed[field] != text}
            if changed and not sent.keys().isdisjoint({*changed, f"{name}_version"}):
                yield name, partial(_new_card, name, changed, version)
            continue
        value: dict[str, Any] = {name: sent.get(name, "")}
        if name == "note":
            value["deprecated"] = "deprecated" in sent
        is_sent = not sent.keys().isdisjoint({*value, f"{name}_version"})
        if is_sent and value != {key: shown.get(key) or type(value[key])() for key in value}:
            yield name, partial(_new_text, urn, shown, value, version)


def _shown(store: Store, urn: str, aspect: str, stamp: str) -> tuple[Mapping[str, Any], str]:
    """Return the value that the form was made of, its texts as they were in it, and its version.

    Of a `stamp` that no version has, the value is empty and the version one that is never stored.
    """
    version = stamp.partition("-")[0]
    known = version.isdecimal() and len(version) < 10
    found = store.get_version(urn, aspect, int(version)) if known else None
    if found is None or _stamp(found) != stamp:
        return {}, stamp
    value = found.value.items()
    return {key: _plain(one) if isinstance(one, str) else one for key, one in value}, version


def _new_text(urn: str, shown: Mapping[str, Any], value: Mapping[str, Any], version: str) -> Edit:
    if "description" in value:
        edit = edits.describe(urn, value["description"])
    else:
        # What the form does not show stays, as long as the entity is deprecated.
        stays = {key: shown[key] for key in shown if key != "actor" and value["deprecated"]}
        edit = edits.deprecate({**stays, **value})
    return replace(edit, expected_version=version)


def _new_card(aspect: str, texts: Mapping[str, str], version: str) -> Edit:
    users = [line.strip() for line in texts.get("primaryUsers", "").splitlines()]
    if unfit := card_aspects({"users": [*filter(None, users)]}).unfit:
        raise BadRequestError(f"Users are {', '.join(USERS)}: none is {', '.join(unfit['users'])}.")
    absent = "Failed to update {urn}. {urn} does not exist."
    return Edit(
        aspect,
        lambda value, _stamp: with_card_texts(aspect, value, texts),
        absent,
        expected_version=version,
    )


def _removal(key: str) -> Edit:
    try:
        name, *parts = map(str, loads(key))
        return _LISTS[name][1](*parts)
    except (CodecError, KeyError, TypeError, ValueError) as error:
        raise BadRequestError("The form is damaged; reload the page.") from error


def _new_tag(text: str) -> Edit:
    urn = text if text.startswith(urns.PREFIX) else urns.build("tag", text)
    if entity_type(urn) != "tag":
        raise BadRequestError(f"{urn} is the URN of no tag.")
    name = {"name": urns.decoded_parts(urn)[0]}
    made = Write(urn, TAG_PROPERTIES, name, "CREATE_ENTITY", skip_if_exists=True)
    return replace(edits.add_labels(GLOBAL_TAGS, [urn]), first=made)


def _new_owner(text: str, kind: str) -> Edit:
    urn = text if text.startswith(urns.PREFIX) else urns.build("corpuser", text)
    entity_kind = "CORP_GROUP" if entity_type(urn) == "corpGroup" else "CORP_USER"
    owner = {"ownerUrn": urn, "ownerEntityType": entity_kind, "type": kind or "TECHNICAL_OWNER"}
    return replace(edits.add_owners([owner]), first=Write(urn, *key_aspect(urn)))


def _new_link(urn: str, address: str, label: str) -> Edit:
    if web_address(address) is None:
        raise BadRequestError("A link begins with http:// or https:// and has no spaces.")
    return edits.add_link(urn, address, label or address)
