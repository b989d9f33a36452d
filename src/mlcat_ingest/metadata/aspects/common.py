"""Aspects that most entity types share: `com.linkedin.common.*` of DataHub's metadata model."""

from typing import Final

from mlcat_ingest.metadata.aspects.declaration import SearchField, aspect

STATUS: Final = aspect("status", patch_keys={}, searched=(SearchField("removed", "removed"),))
"""The soft delete: `removed` hides the entity. Source in MLflow: the lifecycle stage."""

SUB_TYPES: Final = aspect("subTypes", searched=(SearchField("typeNames", "typeNames", "tags"),))
"""Finer kinds of the entity, free text, the main one first."""

DATA_PLATFORM_INSTANCE: Final = aspect(
    "dataPlatformInstance",
    searched=(
        SearchField("platform", "platform", entity_types=("dataPlatform",)),
        SearchField("instance", "platformInstance"),
    ),
)
"""The platform the entity lives on, and which installation of it. Source: the recipe."""

CONTAINER: Final = aspect(
    "container",
    searched=(
        SearchField("container", "container", entity_types=("container",)),
        SearchField("container", "browsePathV2"),
    ),
)
"""The container that holds the entity."""

BROWSE_PATHS: Final = aspect("browsePaths")
"""Slash-separated paths of the older browse view."""

BROWSE_PATHS_V2: Final = aspect(
    "browsePathsV2",
    one_value=frozenset({"path"}),
    searched=(SearchField("path.urn", "browsePathV2"),),
)
"""The place of the entity in the browse view, outermost step first."""

# The descriptions that people wrote in the catalog's pages; ours never overwrite them.
EDITABLE_CONTAINER_PROPERTIES: Final = aspect("editableContainerProperties")
EDITABLE_ML_FEATURE_PROPERTIES: Final = aspect("editableMlFeatureProperties")
EDITABLE_ML_FEATURE_TABLE_PROPERTIES: Final = aspect("editableMlFeatureTableProperties")
EDITABLE_ML_MODEL_GROUP_PROPERTIES: Final = aspect("editableMlModelGroupProperties")
EDITABLE_ML_MODEL_PROPERTIES: Final = aspect("editableMlModelProperties")
EDITABLE_ML_PRIMARY_KEY_PROPERTIES: Final = aspect("editableMlPrimaryKeyProperties")

IS_LATEST: Final = "isLatest"
"""The field of a version that the service computes; a proposal that holds it is refused."""

VERSION_PROPERTIES: Final = aspect(
    "versionProperties",
    merge_keys={"aliases": "versionTag"},
    patch_keys={},
    computed=frozenset({IS_LATEST}),
    unowned=frozenset({"metadataCreatedTimestamp"}),
)
"""The version of a version set that the entity is. MLflow: version number, aliases.

`sortId` orders the set as text (numbers are padded with zeros). `isLatest` is computed
by the service.
"""

VERSION_SET_PROPERTIES: Final = aspect("versionSetProperties")
"""The set itself: its newest member, and how members are ordered."""
