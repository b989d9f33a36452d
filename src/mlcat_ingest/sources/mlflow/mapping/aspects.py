"""Aspects that models and groups share: lifecycle, platform instance, owners, tags."""

from mlcat_ingest.metadata.aspects.assets import TAG_PROPERTIES
from mlcat_ingest.metadata.aspects.common import DATA_PLATFORM_INSTANCE, STATUS
from mlcat_ingest.metadata.naming import Name
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.metadata.reserved import SOURCE_KEY
from mlcat_ingest.metadata.urn import tag
from mlcat_ingest.sources.mlflow.mapping.properties import PropertiesBuilder
from mlcat_ingest.sources.mlflow.mapping.text import Fitter
from mlcat_ingest.sources.mlflow.values.joined import WorkspaceScope
from mlcat_ingest.sources.mlflow.values.names import OwnKey

ACTIVE: Aspect = {"removed": False}
REMOVED: Aspect = {"removed": True}

NO_TAGS: Aspect = {"tags": []}
"""Aspects that were read and are empty: what MLflow said there before goes."""


def first_aspects(scope: WorkspaceScope, *, removed: bool) -> dict[str, Aspect]:
    """Return the aspects that stand first: `status`, and `dataPlatformInstance` if there is one.

    An active entity says `removed: false` so that one which was removed comes back; the pipeline
    drops that word where nothing is stored, so an ordinary entity costs no aspect more.
    """
    aspects: dict[str, Aspect] = {STATUS: REMOVED if removed else ACTIVE}
    instance = scope.platform_instance()
    if instance is not None:
        aspects[DATA_PLATFORM_INSTANCE] = instance
    return aspects


def common_properties(scope: WorkspaceScope, name: Name, fitter: Fitter) -> PropertiesBuilder:
    """Return the custom properties of every entity: its source, and a name that was shortened."""
    custom = PropertiesBuilder(fitter)
    custom.values[SOURCE_KEY] = scope.source_key
    custom.put_own(OwnKey.FULL_NAME, name.full_name)
    return custom


def tag_entity(name: str, description: str) -> Entity:
    """Return a tag that is created where the catalog lacks it and never changed."""
    aspect = {"name": name, "description": description}
    return Entity(tag(name), {TAG_PROPERTIES: aspect}, only_if_absent=True)
