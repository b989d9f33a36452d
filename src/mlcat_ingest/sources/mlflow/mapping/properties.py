"""Custom properties, and the further aspects that models and groups share.

MLflow's tags become custom properties beside our own keys, under names that hide none of them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from mlcat_ingest.metadata.aspects import (
    BROWSE_PATHS_V2,
    DATA_PLATFORM_INSTANCE,
    STATUS,
    SUB_TYPES,
    TAG_PROPERTIES,
)
from mlcat_ingest.metadata.naming import Name
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.metadata.reserved import OWN_PREFIX, SOURCE_KEY, VERDICT_TAGS
from mlcat_ingest.metadata.urn import build
from mlcat_ingest.sources.mlflow.mapping.text import Truncator, clean, cut
from mlcat_ingest.sources.mlflow.values.joined import WorkspaceScope
from mlcat_ingest.sources.mlflow.values.records import (
    NAMING_TAG,
    USER_TAG,
    PropertyKey,
    Run,
    SubType,
)

_T = TypeVar("_T")

OWN_KEYS: Final = frozenset(key.value for key in PropertyKey)
"""A tag of such a name becomes `tag.<name>`."""

_HIDDEN: Final = ("mlflow.", OWN_PREFIX)
SHOWN_TAGS: Final = 20
SHOWN_CHARS: Final = 100
_ESCAPED = (OWN_PREFIX, "source.", "tag.")
# A DataHub server joins the steps of a path by it, to search for them.
_PATH_SEPARATOR: Final = "\u241f"

ACTIVE: Aspect = {"removed": False}
REMOVED: Aspect = {"removed": True}
NO_SUB_TYPES: Aspect = {"typeNames": []}
NO_TAGS: Aspect = {"tags": []}
"""An empty aspect for a record without tags: tags that MLflow had before are removed."""


def source_name(name: str) -> str:
    """Return the name in the catalog of a tag or parameter called `name`.

    `mlcat.*` becomes `source.mlcat.*`, and one of our own keys `tag.<key>`; names that already
    look like that get one prefix more, so two names never become one.
    """
    if name in OWN_KEYS:
        return f"tag.{name}"
    if not name.startswith(_ESCAPED):
        return name
    if _without_prefixes(name, "source.").startswith(OWN_PREFIX):
        return f"source.{name}"
    return f"tag.{name}" if _without_prefixes(name, "tag.") in OWN_KEYS else name


def _without_prefixes(name: str, prefix: str) -> str:
    while name.startswith(prefix):
        name = name.removeprefix(prefix)
    return name


@dataclass(slots=True)
class PropertiesBuilder:
    """The custom properties of one entity: our own keys, and the tags of its record."""

    truncator: Truncator
    values: dict[str, str] = field(default_factory=dict)

    def add(self, key: str, value: str, prefix: str) -> None:
        """Add an entry; where the key is taken, under the next `prefix` + key that is free."""
        while key in self.values:
            key = prefix + key
        self.values[key] = value

    def set_own(self, key: PropertyKey, value: str | None) -> None:
        """Add a property of our own where it has a value."""
        if value:
            name: str = key._value_  # `value` is a property, in Python
            self.values[name] = self.truncator.text(value, name)

    def add_tags(self, tags: Mapping[str, str], *, without: Collection[str] = ()) -> None:
        """Add the tags of a record, sorted, under names that hide none of our own keys."""
        truncator, limits = self.truncator, self.truncator.limits
        # The catalog's own verdict, written back, is no change of the record.
        left_out = {NAMING_TAG, *VERDICT_TAGS, *without}
        for key in self.limit_entries("tags", sorted(tags), limits.tags):
            if key not in left_out:
                value = truncator.text(tags[key], "tag", name=key)
                self.add(truncator.name(source_name(key), "tag name"), value, "tag.")

    def limit_entries(self, what: str, names: Sequence[_T], limit: int) -> Sequence[_T]:
        """Return the first `limit` of `names`; entity and report have the number of the others."""
        if len(names) <= limit:
            return names
        self.leave_out(what, limit, len(names))
        return names[:limit]

    def leave_out(self, what: str, kept: int, total: int) -> None:
        """Add to entity and report the number of omitted items, if there are any."""
        if kept == total:
            return
        line = f"{total - kept} of {total} {what}"
        self.truncator.note("truncated", f"{line} left out")
        before = self.values.get(PropertyKey.LEFT_OUT)
        self.values[PropertyKey.LEFT_OUT.value] = f"{before}, {line}" if before else line


def shown_tags(tags: Mapping[str, str], status: str | None = None) -> list[str]:
    """Return short `<key>:<value>` texts: the status first, without the tags of MLflow itself.

    DataHub's list of the models of a group shows them; long and further tags are only in the custom
    properties.

    Source: `mlModelProperties.tags`, as DataHub's own mlflow source writes it.
    """
    texts = sorted(
        f"{key}:{value}"
        for key, value in tags.items()
        if not key.startswith(_HIDDEN) and len(key) + len(value) < SHOWN_CHARS
    )
    own = [f"status:{status}"] if status else []
    return [*own, *map(clean, texts[:SHOWN_TAGS])]


def user_of(scope: WorkspaceScope, run: Run) -> str | None:
    """Return the URN of the user who made a run, None if no user is known.

    MLflow deprecated `user_id`; clients that run as a service set the tag to the person.
    """
    return scope.owners.urn(run.tags.get(USER_TAG)) or scope.owners.urn(run.user_id)


def first_aspects(
    scope: WorkspaceScope, *kinds: SubType, removed: bool, path: Aspect | None
) -> dict[str, Aspect]:
    """Return the first aspects: status, instance, subtypes and browse path.

    An active entity has `removed: false`, which restores a removed one; the pipeline
    drops that word where nothing is stored, so an ordinary entity costs no aspect more. The same
    holds of an entity without subtypes. A `path` of None leaves the stored one as it is.
    """
    aspects: dict[str, Aspect] = {STATUS: REMOVED if removed else ACTIVE}
    instance = scope.platform_instance()
    if instance is not None:
        aspects[DATA_PLATFORM_INSTANCE] = instance
    aspects[SUB_TYPES] = {"typeNames": [kind.value for kind in kinds]} if kinds else NO_SUB_TYPES
    if path is not None:
        aspects[BROWSE_PATHS_V2] = path
    return aspects


def browse_path(scope: WorkspaceScope, folder: str | None = None) -> Aspect | None:
    """Return the browse path instance / workspace / `folder`, None where it has no step.

    `folder` is the name of an experiment or a registered model, and the path is the same object
    for all that is in it.

    Source: `auto_browse_path_v2.py` of the DataHub SDK 1.7, for the step of the instance.
    """
    aspect = scope.browse_paths.get(folder)
    if aspect is None:
        urn = scope.naming.instance_urn
        names = [name for name in (scope.naming.workspace, folder) if name]
        steps = [] if urn is None else [{"id": urn, "urn": urn}]
        # Without a note: the group has the whole name, and a note about it.
        whole = [clean(name.replace(_PATH_SEPARATOR, "\ufffd")) for name in names]
        steps += [{"id": cut(name, scope.limits.name_chars)} for name in whole]
        aspect = scope.browse_paths[folder] = {"path": steps}
    return aspect if aspect["path"] else None


def common_properties(scope: WorkspaceScope, name: Name, truncator: Truncator) -> PropertiesBuilder:
    """Return the custom properties of every entity: its source, and a name that was shortened."""
    custom = PropertiesBuilder(truncator)
    custom.values[SOURCE_KEY] = scope.source_key
    custom.set_own(PropertyKey.FULL_NAME, name.full_name)
    return custom


def tag_entity(name: str, description: str) -> Entity:
    """Return a tag that is created where the catalog lacks it and never changed."""
    aspect = {"name": name, "description": description}
    return Entity(build("tag", name), {TAG_PROPERTIES: aspect}, only_if_absent=True)
