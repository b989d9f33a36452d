"""Custom properties: what MLflow's tags are called in the catalog, beside our own keys."""

from collections.abc import Collection, Mapping
from typing import Final

from mlcat_ingest.core.redaction import redact_urls
from mlcat_ingest.metadata.reserved import OWN_PREFIX
from mlcat_ingest.sources.mlflow.mapping.text import Fitter
from mlcat_ingest.sources.mlflow.values.names import REPO_TAGS, OwnKey

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


class PropertiesBuilder:
    """The custom properties of one entity: our own keys, and the tags of its record."""

    __slots__ = ("fitter", "values")

    def __init__(self, fitter: Fitter) -> None:
        """Start without properties."""
        self.fitter = fitter
        self.values: dict[str, str] = {}

    def put(self, key: str, value: str, prefix: str) -> None:
        """Add an entry; where the key is taken, under the next `prefix` + key that is free."""
        while key in self.values:
            key = prefix + key
        self.values[key] = value

    def put_own(self, key: OwnKey, value: str | None) -> None:
        """Add a property of our own where it has a value."""
        if value:
            self.values[key.value] = self.fitter.text(value, key.value)

    def put_tags(self, tags: Mapping[str, str], *, without: Collection[str] = ()) -> None:
        """Add the tags of a record, sorted, under names that hide none of our own keys."""
        fitter, values, limits = self.fitter, self.values, self.fitter.limits
        value_limit, name_limit = limits.value_chars, limits.name_chars
        for key in self.limited("tags", sorted(tags), limits.tags):
            if key in without:
                continue
            value = tags[key]
            if len(value) > value_limit or not value.isprintable():
                value = fitter.text(value, f"tag {key[:name_limit]!r}")
            # An ordinary name needs no more than these looks at it; it is the same in the catalog.
            special = key in _SPECIAL or key.startswith(_ESCAPED) or len(key) > name_limit
            if special or key in values or not key.isprintable():
                self._put_special(key, value)
            else:
                values[key] = value

    def _put_special(self, key: str, value: str) -> None:
        if key in _ADDRESS_TAGS:
            value = redact_urls(value)
        self.put(self.fitter.name(source_name(key), "tag name"), value, "tag.")

    def limited(self, what: str, names: list[str], limit: int) -> list[str]:
        """Return the first `limit` of `names`; entity and report say how many are left out."""
        if len(names) <= limit:
            return names
        line = f"{len(names) - limit} of {len(names)} {what}"
        self.fitter.note("truncated", f"{line} left out")
        before = self.values.get(OwnKey.LEFT_OUT)
        self.values[OwnKey.LEFT_OUT.value] = f"{before}, {line}" if before else line
        return names[:limit]
