"""Aspects by which people govern entities: owners, tags, terms, links, domains, typed properties.

Source: `com.linkedin.common.*`, `com.linkedin.domain.*`, `com.linkedin.structured.*` of DataHub's
metadata model.
"""

from typing import Annotated, Final, Literal, NotRequired, TypeAlias, TypedDict

from mlcat_ingest.metadata.aspects.common import AuditStamp, MetadataAttribution
from mlcat_ingest.metadata.aspects.declaration import (
    ATTRIBUTION,
    AnyUrn,
    Default,
    Edge,
    Millis,
    OneOf,
    SearchField,
    UrnOf,
    aspect,
)

OwnershipType: TypeAlias = Literal[
    "CUSTOM", "TECHNICAL_OWNER", "BUSINESS_OWNER", "DATA_STEWARD", "NONE", "DEVELOPER",
    "DATAOWNER", "DELEGATE", "PRODUCER", "CONSUMER", "STAKEHOLDER",
]  # fmt: skip


class _OwnershipSource(TypedDict):
    """The system that an ownership was read from, with its address."""

    type: Literal[
        "AUDIT", "DATABASE", "FILE_SYSTEM", "ISSUE_TRACKING_SYSTEM", "MANUAL", "SERVICE",
        "SOURCE_CONTROL", "OTHER",
    ]  # fmt: skip
    url: NotRequired[str]


class _Owner(TypedDict):
    """One owner; `typeUrn` names an ownership type that the catalog's users defined."""

    owner: Annotated[str, Edge("OwnedBy", "corpuser corpGroup")]
    type: OwnershipType
    typeUrn: NotRequired[Annotated[str, Edge("ownershipType", "ownershipType")]]
    source: NotRequired[_OwnershipSource]
    attribution: NotRequired[MetadataAttribution]


class _Ownership(TypedDict):
    """The owners of the entity. Source in MLflow: the run's user, the `mlflow.user` tag.

    `ownerTypes` is an index by owner type that the service computes; leave it out.
    """

    owners: list[_Owner]
    ownerTypes: NotRequired[dict[str, list[AnyUrn]]]
    lastModified: NotRequired[
        Annotated[AuditStamp, Default('{"time":0,"actor":"urn:li:corpuser:unknown"}')]
    ]


OWNERSHIP: Final = aspect(
    "ownership",
    _Ownership,
    merge_keys={"owners": f"owner type typeUrn {ATTRIBUTION}"},
    patch_keys={"owners": "owner type typeUrn"},
    computed=frozenset({"ownerTypes"}),
    curated="owners",
    searched=(
        SearchField("owners.owner", "owners", "tags", entity_types=("corpuser", "corpGroup")),
    ),
)


class _TagAssociation(TypedDict):
    """One tag on the entity; `context` is a JSON text."""

    tag: Annotated[str, UrnOf("tag")]
    context: NotRequired[str]
    attribution: NotRequired[MetadataAttribution]


class _GlobalTags(TypedDict):
    """The catalog's tags on the entity, which are names of their own (not MLflow's tags)."""

    tags: Annotated[list[_TagAssociation], Edge("TaggedWith", "tag", at="tag")]


GLOBAL_TAGS: Final = aspect(
    "globalTags",
    _GlobalTags,
    merge_keys={"tags": f"tag {ATTRIBUTION}"},
    patch_keys={"tags": "tag"},
    curated="tags",
    searched=(SearchField("tags.tag", "tags", "tags", entity_types=("tag",)),),
)


class _GlossaryTermAssociation(TypedDict):
    """One term on the entity; `context` is a JSON text."""

    urn: Annotated[str, Edge("TermedWith", "glossaryTerm")]
    actor: NotRequired[AnyUrn]
    context: NotRequired[str]
    attribution: NotRequired[MetadataAttribution]


class _GlossaryTerms(TypedDict):
    """The business terms of the entity, and when they last changed."""

    terms: list[_GlossaryTermAssociation]
    auditStamp: AuditStamp


GLOSSARY_TERMS: Final = aspect(
    "glossaryTerms",
    _GlossaryTerms,
    merge_keys={"terms": f"urn {ATTRIBUTION}"},
    patch_keys={"terms": "urn"},
    unowned=frozenset({"auditStamp"}),
    curated="terms",
    searched=(SearchField("terms.urn", "glossaryTerms", "tags", entity_types=("glossaryTerm",)),),
)


class _LinkSettings(TypedDict, total=False):
    """How a link is shown (record `InstitutionalMemoryMetadataSettings`)."""

    showInAssetPreview: Annotated[bool, Default("false")]


class _InstitutionalMemoryMetadata(TypedDict):
    """A link: absolute address, what it is, who put it there."""

    url: str
    description: str
    createStamp: AuditStamp
    updateStamp: NotRequired[AuditStamp]
    settings: NotRequired[_LinkSettings]


class _InstitutionalMemory(TypedDict):
    """Links to pages about the entity, keyed by address and description."""

    elements: list[_InstitutionalMemoryMetadata]


INSTITUTIONAL_MEMORY: Final = aspect(
    "institutionalMemory",
    _InstitutionalMemory,
    merge_keys={"elements": "url"},
    curated="elements",
    searched=(SearchField("elements.description", "links", "description", keyword=False),),
)


class _DomainAssociation(TypedDict):
    """One domain with who put the entity there."""

    domain: Annotated[str, UrnOf("domain")]
    context: NotRequired[str]
    attribution: NotRequired[MetadataAttribution]


class _Domains(TypedDict):
    """The business domains of the entity; the catalog's page shows the first.

    `domainAssociations` repeats them as records that the service computes; leave it out.
    """

    domains: Annotated[list[str], Edge("AssociatedWith", "domain")]
    domainAssociations: NotRequired[list[_DomainAssociation]]


DOMAINS: Final = aspect(
    "domains",
    _Domains,
    patch_keys={"domains": ""},
    computed=frozenset({"domainAssociations"}),
    curated="domains",
    searched=(SearchField("domains", "domains", "tags", entity_types=("domain",)),),
)


class _Applications(TypedDict):
    """The applications that the entity belongs to."""

    applications: Annotated[list[str], Edge("AssociatedWith", "application")]


APPLICATIONS: Final = aspect("applications", _Applications)


class _Deprecation(TypedDict):
    """That the entity should no longer be used, why, from when, and what to use instead."""

    deprecated: bool
    note: str
    actor: AnyUrn
    decommissionTime: NotRequired[Millis]
    replacement: NotRequired[AnyUrn]


DEPRECATION: Final = aspect(
    "deprecation", _Deprecation, searched=(SearchField("deprecated", "deprecated"),)
)


class _DocumentationAssociation(TypedDict):
    """One text about the entity, in Markdown."""

    documentation: str
    attribution: NotRequired[MetadataAttribution]


class _Documentation(TypedDict):
    """Texts about the entity from several authors or tools."""

    documentations: list[_DocumentationAssociation]


DOCUMENTATION: Final = aspect(
    "documentation",
    _Documentation,
    searched=(
        SearchField("documentations.documentation", "description", "description", keyword=False),
    ),
)


class _PrimitivePropertyValue(TypedDict, total=False):
    """A value of a structured property, wrapped by the name of its type."""

    string: str
    double: float


class _StructuredPropertyValueAssignment(TypedDict):
    """The values of one structured property."""

    propertyUrn: Annotated[str, UrnOf("structuredProperty")]
    values: list[Annotated[_PrimitivePropertyValue, OneOf]]
    created: NotRequired[AuditStamp]
    lastModified: NotRequired[AuditStamp]
    attribution: NotRequired[MetadataAttribution]


class _StructuredProperties(TypedDict):
    """Typed properties that the catalog's users defined, keyed by property."""

    properties: list[_StructuredPropertyValueAssignment]


STRUCTURED_PROPERTIES: Final = aspect(
    "structuredProperties",
    _StructuredProperties,
    merge_keys={"properties": "propertyUrn"},
    patch_keys={"properties": f"propertyUrn {ATTRIBUTION}"},
    curated="properties",
)
