"""Records and aspects that most entity types share.

Source: `com.linkedin.common.*` of DataHub's metadata model. A field that is left out is unset;
texts are plain text unless noted otherwise.
"""

from typing import Annotated, Final, Literal, NotRequired, Required, TypeAlias, TypedDict

from mlcat_ingest.metadata.aspects.declaration import (
    EMPTY_LIST,
    EMPTY_MAP,
    AnyUrn,
    Default,
    Edge,
    Millis,
    SearchField,
    UrnOf,
    aspect,
)

FabricType: TypeAlias = Literal[
    "DEV", "TEST", "QA", "UAT", "EI", "PRE", "STG", "NON_PROD", "PROD", "CORP", "RVW", "PRD",
    "TST", "SIT", "SBX", "SANDBOX", "CERT",
]  # fmt: skip
"""The environments that a model, a group or a dataset may belong to."""


class CustomProperties(TypedDict, total=False):
    """Text by text key: what has no field of its own. Keys `mlcat.*` belong to this package."""

    customProperties: Annotated[dict[str, str], EMPTY_MAP]


class TimeStamp(TypedDict):
    """A moment, and who caused it where that is known (URN of a user)."""

    time: Millis
    actor: NotRequired[AnyUrn]


class AuditStamp(TypedDict):
    """A moment and who caused it; `impersonator` is who acted in the actor's name."""

    time: Millis
    actor: AnyUrn
    impersonator: NotRequired[AnyUrn]
    message: NotRequired[str]


class MetadataAttribution(TypedDict):
    """An attribution: the author of an entry, the time, and the tool (`source`, a URN)."""

    time: Millis
    actor: AnyUrn
    source: NotRequired[AnyUrn]
    sourceDetail: NotRequired[Annotated[dict[str, str], EMPTY_MAP]]


class VersionTag(TypedDict, total=False):
    """The name of a version, as people write it."""

    versionTag: str
    metadataAttribution: MetadataAttribution


class EdgeRecord(TypedDict):
    """One end of a lineage edge (record `Edge` in the model); `properties` describe the edge."""

    destinationUrn: AnyUrn
    sourceUrn: NotRequired[AnyUrn]
    created: NotRequired[AuditStamp]
    lastModified: NotRequired[AuditStamp]
    properties: NotRequired[dict[str, str]]


class _Status(TypedDict, total=False):
    """The soft delete: `removed` hides the entity. Source in MLflow: the lifecycle stage."""

    removed: Annotated[bool, Default("false")]
    lifecycleStage: AnyUrn
    lifecycleLastUpdated: AuditStamp


STATUS: Final = aspect(
    "status", _Status, patch_keys={}, searched=(SearchField("removed", "removed"),)
)


class _SubTypes(TypedDict):
    """Finer kinds of the entity, free text, the main one first."""

    typeNames: list[str]


SUB_TYPES: Final = aspect(
    "subTypes", _SubTypes, searched=(SearchField("typeNames", "typeNames", "tags"),)
)


class _DataPlatformInstance(TypedDict):
    """The platform the entity lives on, and which installation of it. Source: the recipe."""

    platform: Annotated[str, UrnOf("dataPlatform")]
    instance: NotRequired[Annotated[str, UrnOf("dataPlatformInstance")]]


DATA_PLATFORM_INSTANCE: Final = aspect(
    "dataPlatformInstance",
    _DataPlatformInstance,
    searched=(
        SearchField("platform", "platform", entity_types=("dataPlatform",)),
        SearchField("instance", "platformInstance"),
    ),
)


class Container(TypedDict):
    """The container that holds the entity."""

    container: Annotated[str, Edge("IsPartOf", "container")]


CONTAINER: Final = aspect(
    "container",
    Container,
    searched=(
        SearchField("container", "container", entity_types=("container",)),
        SearchField("container", "browsePathV2"),
    ),
)


class _BrowsePaths(TypedDict):
    """Slash-separated paths of the older browse view."""

    paths: list[str]


BROWSE_PATHS: Final = aspect("browsePaths", _BrowsePaths)


class _BrowsePathEntry(TypedDict):
    """One step of a path; `urn` where the step is an entity."""

    id: str
    urn: NotRequired[AnyUrn]


class _BrowsePathsV2(TypedDict):
    """The place of the entity in the browse view, outermost step first."""

    path: list[_BrowsePathEntry]


BROWSE_PATHS_V2: Final = aspect(
    "browsePathsV2",
    _BrowsePathsV2,
    one_value=frozenset({"path"}),
    searched=(SearchField("path.urn", "browsePathV2"),),
)


class _EditableDescription(TypedDict, total=False):
    """The description that people wrote in the catalog's pages; ours never overwrites it."""

    description: str


EDITABLE_CONTAINER_PROPERTIES: Final = aspect("editableContainerProperties", _EditableDescription)
EDITABLE_ML_FEATURE_PROPERTIES: Final = aspect("editableMlFeatureProperties", _EditableDescription)
EDITABLE_ML_FEATURE_TABLE_PROPERTIES: Final = aspect(
    "editableMlFeatureTableProperties", _EditableDescription
)
EDITABLE_ML_MODEL_GROUP_PROPERTIES: Final = aspect(
    "editableMlModelGroupProperties", _EditableDescription
)
EDITABLE_ML_MODEL_PROPERTIES: Final = aspect("editableMlModelProperties", _EditableDescription)
EDITABLE_ML_PRIMARY_KEY_PROPERTIES: Final = aspect(
    "editableMlPrimaryKeyProperties", _EditableDescription
)


IS_LATEST: Final = "isLatest"
"""The field of a version that the service computes; a proposal that holds it is refused."""


class _VersionProperties(TypedDict):
    """The version of a version set that the entity is. MLflow: version number, aliases.

    `sortId` orders the set as text (numbers are padded with zeros). `isLatest` is computed
    by the service.
    """

    versionSet: Annotated[str, Edge("VersionOf", "versionSet")]
    version: VersionTag
    sortId: str
    aliases: NotRequired[Annotated[list[VersionTag], EMPTY_LIST]]
    comment: NotRequired[str]
    versioningScheme: NotRequired[
        Annotated[
            Literal["LEXICOGRAPHIC_STRING", "ALPHANUMERIC_GENERATED_BY_DATAHUB"],
            Default('"LEXICOGRAPHIC_STRING"'),
        ]
    ]
    sourceCreatedTimestamp: NotRequired[AuditStamp]
    metadataCreatedTimestamp: NotRequired[AuditStamp]
    isLatest: NotRequired[bool]


VERSION_PROPERTIES: Final = aspect(
    "versionProperties",
    _VersionProperties,
    merge_keys={"aliases": "versionTag"},
    patch_keys={},
    computed=frozenset({IS_LATEST}),
    unowned=frozenset({"metadataCreatedTimestamp"}),
)


class _VersionSetProperties(CustomProperties):
    """The set itself: its newest member, and how members are ordered."""

    latest: Required[AnyUrn]
    versioningScheme: Required[Literal["LEXICOGRAPHIC_STRING", "ALPHANUMERIC_GENERATED_BY_DATAHUB"]]


VERSION_SET_PROPERTIES: Final = aspect("versionSetProperties", _VersionSetProperties)
