"""Custom properties: what MLflow's tags are called in the catalog, beside our own keys."""

from collections.abc import Collection, Mapping
from typing import Final

from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.metadata.reserved import OWN_PREFIX
from mlcat_ingest.redaction import redact_urls
from mlcat_ingest.sources.mlflow.joined import Limits
from mlcat_ingest.sources.mlflow.mapping.text import fit
from mlcat_ingest.sources.mlflow.names import REPO_TAGS, OwnKey

OWN_KEYS: Final = frozenset(key.value for key in OwnKey)
"""A tag of such a name becomes `tag.<name>`."""

_ESCAPED = (OWN_PREFIX, "source.", "tag.")
_ADDRESS_TAGS = frozenset(REPO_TAGS)
_SPECIAL = OWN_KEYS | _ADDRESS_TAGS


def source_name(name: str) -> str:
    """Return what a tag or parameter called `name` is called in the catalog.

    `mlcat.*` becomes `source.mlcat.*`, and one of our own keys `tag.<key>`; names that already
    look like that get one prefix more, so two names never become one.
    """
    if name in OWN_KEYS:
        return f"tag.{name}"
    if not name.startswith(_ESCAPED):
        return name
    bare = name
    while bare.startswith("source."):
        bare = bare[7:]
    if bare.startswith(OWN_PREFIX):
        return f"source.{name}"
    bare = name
    while bare.startswith("tag."):
        bare = bare[4:]
    return f"tag.{name}" if bare in OWN_KEYS else name


def put(properties: dict[str, str], key: str, value: str, prefix: str) -> None:
    """Add an entry; where the key is taken, under the next `prefix` + key that is free."""
    while key in properties:
        key = prefix + key
    properties[key] = value


def put_own(
    properties: dict[str, str], key: OwnKey, value: str | None, limits: Limits, notes: list[Note]
) -> None:
    """Add a property of our own where it has a value."""
    if value:
        properties[key.value] = fit(value, limits.value_chars, notes, key.value)


def put_tags(
    properties: dict[str, str],
    tags: Mapping[str, str],
    limits: Limits,
    notes: list[Note],
    *,
    without: Collection[str] = (),
) -> None:
    """Add the tags of a record, sorted, under names that hide none of our own keys."""
    value_limit, name_limit = limits.value_chars, limits.name_chars
    keys = sorted(tags)
    if len(keys) > limits.tags:
        note_left_out(properties, "tags", limits.tags, len(keys), notes)
        keys = keys[: limits.tags]
    for key in keys:
        if key in without:
            continue
        value = tags[key]
        if len(value) > value_limit or not value.isprintable():
            value = fit(value, value_limit, notes, f"tag {key[:name_limit]!r}")
        # An ordinary name needs no more than these looks at it; it is the same in the catalog.
        special = key in _SPECIAL or key.startswith(_ESCAPED) or len(key) > name_limit
        if special or key in properties or not key.isprintable():
            _put_special(properties, key, value, limits, notes)
        else:
            properties[key] = value


def _put_special(
    properties: dict[str, str], key: str, value: str, limits: Limits, notes: list[Note]
) -> None:
    if key in _ADDRESS_TAGS:
        value = redact_urls(value)
    name = fit(source_name(key), limits.name_chars, notes, "tag name")
    put(properties, name, value, "tag.")


def note_left_out(
    properties: dict[str, str], what: str, kept: int, found: int, notes: list[Note]
) -> None:
    """Say on the entity and in the report that only `kept` of `found` entries are there."""
    notes.append(Note("truncated", f"{found - kept} of {found} {what} left out"))
    line = f"{found - kept} of {found} {what}"
    before = properties.get(OwnKey.LEFT_OUT)
    properties[OwnKey.LEFT_OUT.value] = f"{before}, {line}" if before else line
