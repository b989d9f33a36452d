"""Aspects that models and groups share: lifecycle, platform instance, owners, tags."""

from typing import Any

from mlcat_ingest.metadata.naming import Name
from mlcat_ingest.metadata.proposal import Aspect, Entity, Note
from mlcat_ingest.metadata.reserved import SOURCE_KEY
from mlcat_ingest.metadata.urn import tag
from mlcat_ingest.sources.mlflow.joined import Scope
from mlcat_ingest.sources.mlflow.mapping.properties import put_own
from mlcat_ingest.sources.mlflow.mapping.text import fit, timestamp
from mlcat_ingest.sources.mlflow.names import OwnKey

ACTIVE: Aspect = {"removed": False}
REMOVED: Aspect = {"removed": True}

NO_TAGS: Aspect = {"tags": []}
"""Aspects that were read and are empty: what MLflow said there before goes."""


def first_aspects(scope: Scope, *, removed: bool) -> dict[str, Aspect]:
    """Return the aspects that stand first: `status`, and `dataPlatformInstance` if there is one.

    An active entity says `removed: false` so that one which was removed comes back; the pipeline
    drops that word where nothing is stored, so an ordinary entity costs no aspect more.
    """
    aspects: dict[str, Aspect] = {"status": REMOVED if removed else ACTIVE}
    instance = scope.platform_instance()
    if instance is not None:
        aspects["dataPlatformInstance"] = instance
    return aspects


def common_properties(scope: Scope, name: Name, notes: list[Note]) -> dict[str, str]:
    """Return the custom properties of every entity: its source, and a name that was shortened."""
    properties = {SOURCE_KEY: scope.source_key}
    put_own(properties, OwnKey.FULL_NAME, name.full_name, scope.limits, notes)
    return properties


def tag_entity(name: str, description: str) -> Entity:
    """Return a tag that is created where the catalog lacks it and never changed."""
    aspect = {"name": name, "description": description}
    return Entity(tag(name), {"tagProperties": aspect}, only_if_absent=True)


def time_stamp(
    time_ms: int | None, notes: list[Note], where: str, actor: str | None = None
) -> dict[str, Any] | None:
    """Return a `TimeStamp` record, or None where no time is known."""
    time_ms = timestamp(time_ms, notes, where)
    if time_ms is None:
        return None
    return {"time": time_ms} if actor is None else {"time": time_ms, "actor": actor}


def display_name(scope: Scope, text: str, notes: list[Note]) -> str:
    """Return a name as people see it."""
    return fit(text, scope.limits.value_chars, notes, "name")
