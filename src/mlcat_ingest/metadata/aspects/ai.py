"""Aspects of services, their tools, skills, agents and documents.

Source: `com.linkedin.service.*`, `com.linkedin.api.*`, `com.linkedin.agentskill.*`,
`com.linkedin.agent.*` and `com.linkedin.knowledge.*` of DataHub's metadata model. Texts are plain
text unless said otherwise. "MLflow" names the place that this package's own mapping fills a field
from.
"""

# ruff: noqa: N815 - fields are spelled as on the wire

from typing import Annotated, Final, Literal, NotRequired, Required, TypedDict

from mlcat_ingest.metadata.aspects.common import AuditStamp, CustomProperties
from mlcat_ingest.metadata.aspects.declaration import (
    AnyUrn,
    Default,
    Edge,
    SearchField,
    aspect,
)


class _ServiceProperties(CustomProperties, total=False):
    """A service: its name, what it provides, and the APIs that it has. MLflow: an MCP server."""

    displayName: Required[str]
    description: str
    lifecycle: Literal["EXPERIMENTAL", "PRODUCTION", "DEPRECATED"]
    apis: Annotated[list[str], Edge("ServiceComposesApi", "api", lineage="downstream")]
    sourceRepository: Annotated[str, Edge("SourcedFrom", "repository", lineage="upstream")]


SERVICE_PROPERTIES: Final = aspect("serviceProperties", _ServiceProperties)


class _McpServerProperties(TypedDict):
    """The connection of an MCP server; `timeout` is in seconds, the headers hold no secrets."""

    url: str
    transport: NotRequired[Annotated[Literal["HTTP", "SSE", "WEBSOCKET"], Default('"HTTP"')]]
    timeout: NotRequired[float]
    customHeaders: NotRequired[dict[str, str]]


MCP_SERVER_PROPERTIES: Final = aspect("mcpServerProperties", _McpServerProperties)


class _LargeString(TypedDict):
    """A text: as it is, or base64 of its compressed UTF-8; the size is in bytes of UTF-8."""

    blob: str
    compression: NotRequired[Annotated[Literal["NONE", "GZIP"], Default('"NONE"')]]
    uncompressedSize: NotRequired[int]


class _ServiceDefinition(TypedDict):
    """The document that describes the service, whole. MLflow: the server.json of a version."""

    format: Literal["OPENAPI", "GRAPHQL_SDL", "GRPC_PROTO", "ASYNCAPI", "JSON_SCHEMA", "OTHER"]
    rawSpec: _LargeString
    version: NotRequired[str]
    externalUrl: NotRequired[str]


SERVICE_DEFINITION: Final = aspect("serviceDefinition", _ServiceDefinition)


class _ApiProperties(TypedDict):
    """A callable with a name. MLflow: a tool of an MCP server."""

    name: str
    description: NotRequired[str]
    externalUrl: NotRequired[str]
    sourceRepository: NotRequired[
        Annotated[str, Edge("SourcedFrom", "repository", lineage="upstream")]
    ]
    created: NotRequired[AuditStamp]
    lastModified: NotRequired[AuditStamp]


API_PROPERTIES: Final = aspect("apiProperties", _ApiProperties)


class _SkillSourceRepository(TypedDict, total=False):
    """The place of a skill's files: a repository of the catalog, its address, the path in it."""

    repositoryUrn: AnyUrn
    url: str
    path: str


class _AgentSkillInfo(TypedDict):
    """A skill: its name, when to use it, what to do then, its files and the tools it needs."""

    name: str
    description: NotRequired[str]
    instructions: NotRequired[str]
    sourceRepository: NotRequired[_SkillSourceRepository]
    requiredTools: NotRequired[Annotated[list[str], Edge("SkillRequiresTool", "api")]]
    created: NotRequired[AuditStamp]
    lastModified: NotRequired[AuditStamp]


AGENT_SKILL_INFO: Final = aspect("agentSkillInfo", _AgentSkillInfo)


class _AIAgentSource(TypedDict):
    """Where an agent is from, and the one that it was copied from."""

    type: Literal["SYSTEM", "NATIVE", "EXTERNAL"]
    clonedFrom: NotRequired[Annotated[str, Edge("ClonedFromAgent", "aiAgent")]]


class _AIAgentInfo(TypedDict):
    """An agent: its name, what it does, and its instructions. MLflow: an external model."""

    name: str
    tagline: NotRequired[str]
    description: NotRequired[str]
    instructions: NotRequired[str]
    source: NotRequired[_AIAgentSource]
    created: AuditStamp
    lastModified: AuditStamp


AI_AGENT_INFO: Final = aspect("aiAgentInfo", _AIAgentInfo)


class _AIAgentDependencies(TypedDict, total=False):
    """The skills, the tools and the models of an agent."""

    skills: Annotated[list[str], Edge("AgentHasSkill", "agentSkill", search="skills")]
    tools: Annotated[list[str], Edge("AgentUsesTool", "api", lineage="upstream", search="tools")]
    models: Annotated[list[str], Edge("AgentUsesModel", "mlModel")]


AI_AGENT_DEPENDENCIES: Final = aspect("aiAgentDependencies", _AIAgentDependencies)


class _DocumentSource(TypedDict):
    """Where a document is from, with its address and id there."""

    sourceType: Literal["NATIVE", "EXTERNAL"]
    externalUrl: NotRequired[str]
    externalId: NotRequired[str]


class _DocumentStatus(TypedDict):
    """Whether people see the document."""

    state: Literal["PUBLISHED", "UNPUBLISHED"]


class _DocumentContents(TypedDict):
    """The text of the document, in Markdown."""

    text: str


class _RelatedAsset(TypedDict):
    """An asset that a document is about."""

    asset: Annotated[
        str,
        Edge(
            "RelatedAsset",
            "application chart container dashboard dataFlow dataJob dataProduct dataset domain"
            " glossaryNode glossaryTerm mlFeature mlFeatureTable mlModel mlModelGroup mlPrimaryKey"
            " structuredProperty tag",
            search="relatedAssets",
        ),
    ]


class _RelatedDocument(TypedDict):
    """A document that is related to another one, and is not in it."""

    document: Annotated[str, Edge("RelatedDocument", "document", search="relatedDocuments")]


class _ParentDocument(TypedDict):
    """The document that another one is in."""

    document: Annotated[str, Edge("IsChildOf", "document", search="parentDocument")]


class _DocumentInfo(CustomProperties, total=False):
    """A document: its title, its text, and the assets that it is about. MLflow: a prompt."""

    title: str
    source: _DocumentSource
    status: Required[_DocumentStatus]
    contents: Required[_DocumentContents]
    created: Required[AuditStamp]
    lastModified: Required[AuditStamp]
    relatedAssets: list[_RelatedAsset]
    relatedDocuments: list[_RelatedDocument]
    parentDocument: _ParentDocument


DOCUMENT_INFO: Final = aspect(
    "documentInfo",
    _DocumentInfo,
    merge_keys={"relatedAssets": "asset", "relatedDocuments": "document"},
    searched=(SearchField("contents.text", "text", "description", keyword=False),),
)


class _DocumentSettings(TypedDict, total=False):
    """Whether a document is among all documents, or only at the assets that it is about."""

    showInGlobalContext: Annotated[bool, Default("true")]
    lastModified: AuditStamp


DOCUMENT_SETTINGS: Final = aspect("documentSettings", _DocumentSettings)
