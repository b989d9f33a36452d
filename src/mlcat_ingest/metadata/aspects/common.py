"""Records and aspects that most entity types share.

Source: `com.linkedin.common.*`, `com.linkedin.domain.*`, `com.linkedin.structured.*` of DataHub's
metadata model. A field that is left out is unset; texts are plain text unless said otherwise.
"""

from typing import Annotated, Literal, NotRequired, Required, TypeAlias, TypedDict

from mlcat_ingest.metadata.aspects.markers import (
    EMPTY_LIST,
    EMPTY_MAP,
    AnyUrn,
    Default,
    Edge,
    Millis,
    OneOf,
    UrnOf,
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
    """Who said so, when, and through which tool (`source`, a URN)."""

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


class Status(TypedDict, total=False):
    """Whether the entity is soft-deleted. Source in MLflow: the lifecycle stage."""

    removed: Annotated[bool, Default("false")]
    lifecycleStage: AnyUrn
    lifecycleLastUpdated: AuditStamp


OwnershipType: TypeAlias = Literal[
    "CUSTOM", "TECHNICAL_OWNER", "BUSINESS_OWNER", "DATA_STEWARD", "NONE", "DEVELOPER",
    "DATAOWNER", "DELEGATE", "PRODUCER", "CONSUMER", "STAKEHOLDER",
]  # fmt: skip


class OwnershipSource(TypedDict):
    """Where an ownership was read from, with its address."""

    type: Literal[
        "AUDIT", "DATABASE", "FILE_SYSTEM", "ISSUE_TRACKING_SYSTEM", "MANUAL", "SERVICE",
        "SOURCE_CONTROL", "OTHER",
    ]  # fmt: skip
    url: NotRequired[str]


class Owner(TypedDict):
    """One owner; `typeUrn` names an ownership type that the catalog's users defined."""

    owner: Annotated[str, Edge("OwnedBy", "corpuser", "corpGroup")]
    type: OwnershipType
    typeUrn: NotRequired[Annotated[str, Edge("ownershipType", "ownershipType")]]
    source: NotRequired[OwnershipSource]
    attribution: NotRequired[MetadataAttribution]


class Ownership(TypedDict):
    """Who owns the entity. Source in MLflow: the run's user, the `mlflow.user` tag.

    `ownerTypes` is an index by owner type that the service keeps; leave it out.
    """

    owners: list[Owner]
    ownerTypes: NotRequired[dict[str, list[AnyUrn]]]
    lastModified: NotRequired[
        Annotated[AuditStamp, Default('{"time":0,"actor":"urn:li:corpuser:unknown"}')]
    ]


class TagAssociation(TypedDict):
    """One tag on the entity; `context` is a JSON text."""

    tag: Annotated[str, UrnOf("tag")]
    context: NotRequired[str]
    attribution: NotRequired[MetadataAttribution]


class GlobalTags(TypedDict):
    """The catalog's tags on the entity, which are names of their own (not MLflow's tags)."""

    tags: Annotated[list[TagAssociation], Edge("TaggedWith", "tag", at="tag")]


class GlossaryTermAssociation(TypedDict):
    """One term on the entity; `context` is a JSON text."""

    urn: Annotated[str, Edge("TermedWith", "glossaryTerm")]
    actor: NotRequired[AnyUrn]
    context: NotRequired[str]
    attribution: NotRequired[MetadataAttribution]


class GlossaryTerms(TypedDict):
    """The business terms of the entity, and when they last changed."""

    terms: list[GlossaryTermAssociation]
    auditStamp: AuditStamp


class SubTypes(TypedDict):
    """Finer kinds of the entity, free text, the main one first."""

    typeNames: list[str]


class LinkSettings(TypedDict, total=False):
    """How a link is shown (record `InstitutionalMemoryMetadataSettings`)."""

    showInAssetPreview: Annotated[bool, Default("false")]


class InstitutionalMemoryMetadata(TypedDict):
    """A link: absolute address, what it is, who put it there."""

    url: str
    description: str
    createStamp: AuditStamp
    updateStamp: NotRequired[AuditStamp]
    settings: NotRequired[LinkSettings]


class InstitutionalMemory(TypedDict):
    """Links to pages about the entity, keyed by address and description."""

    elements: list[InstitutionalMemoryMetadata]


class DataPlatformInstance(TypedDict):
    """The platform the entity lives on, and which installation of it. Source: the recipe."""

    platform: Annotated[str, UrnOf("dataPlatform")]
    instance: NotRequired[Annotated[str, UrnOf("dataPlatformInstance")]]


class DomainAssociation(TypedDict):
    """One domain with who put the entity there."""

    domain: Annotated[str, UrnOf("domain")]
    context: NotRequired[str]
    attribution: NotRequired[MetadataAttribution]


class Domains(TypedDict):
    """The business domains of the entity; the catalog's page shows the first."""

    domains: Annotated[list[str], Edge("AssociatedWith", "domain")]
    domainAssociations: NotRequired[list[DomainAssociation]]


class DataProductAssociation(EdgeRecord):
    """One data product that the entity is part of."""

    outputPort: NotRequired[Annotated[bool, Default("false")]]


class DataProducts(TypedDict):
    """The data products that the entity is part of."""

    dataProducts: list[DataProductAssociation]


class Applications(TypedDict):
    """The applications that the entity belongs to."""

    applications: Annotated[list[str], Edge("AssociatedWith", "application")]


class Deprecation(TypedDict):
    """That the entity should no longer be used, why, from when, and what to use instead."""

    deprecated: bool
    note: str
    actor: AnyUrn
    decommissionTime: NotRequired[Millis]
    replacement: NotRequired[AnyUrn]


class DocumentationAssociation(TypedDict):
    """One text about the entity, in Markdown."""

    documentation: str
    attribution: NotRequired[MetadataAttribution]


class Documentation(TypedDict):
    """Texts about the entity from several authors or tools."""

    documentations: list[DocumentationAssociation]


class Container(TypedDict):
    """The container that holds the entity."""

    container: Annotated[str, Edge("IsPartOf", "container")]


class BrowsePaths(TypedDict):
    """Slash-separated paths of the older browse view."""

    paths: list[str]


class BrowsePathEntry(TypedDict):
    """One step of a path; `urn` where the step is an entity."""

    id: str
    urn: NotRequired[AnyUrn]


class BrowsePathsV2(TypedDict):
    """Where the entity stands in the browse view, outermost step first."""

    path: list[BrowsePathEntry]


class PrimitivePropertyValue(TypedDict, total=False):
    """A value of a structured property, wrapped by the name of its type."""

    string: str
    double: float


class StructuredPropertyValueAssignment(TypedDict):
    """The values of one structured property."""

    propertyUrn: Annotated[str, UrnOf("structuredProperty")]
    values: list[Annotated[PrimitivePropertyValue, OneOf]]
    created: NotRequired[AuditStamp]
    lastModified: NotRequired[AuditStamp]
    attribution: NotRequired[MetadataAttribution]


class StructuredProperties(TypedDict):
    """Typed properties that the catalog's users defined, keyed by property."""

    properties: list[StructuredPropertyValueAssignment]


class EditableDescription(TypedDict, total=False):
    """The description that people wrote in the catalog's pages; ours never overwrites it."""

    description: str


class VersionProperties(TypedDict):
    """Which version of which set the entity is. Source in MLflow: version number and aliases.

    `sortId` orders the set as text (numbers are padded with zeros). `isLatest` and
    `metadataCreatedTimestamp` are kept by the service.
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


class VersionSetProperties(CustomProperties):
    """The set itself: its newest member, and how members are ordered."""

    latest: Required[AnyUrn]
    versioningScheme: Required[Literal["LEXICOGRAPHIC_STRING", "ALPHANUMERIC_GENERATED_BY_DATAHUB"]]
