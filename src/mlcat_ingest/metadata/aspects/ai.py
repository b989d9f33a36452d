"""Aspects of services, their tools, skills, agents and documents.

Source: `com.linkedin.service.*`, `com.linkedin.api.*`, `com.linkedin.agentskill.*`,
`com.linkedin.agent.*` and `com.linkedin.knowledge.*` of DataHub's metadata model.
"""

from typing import Final

from mlcat_ingest.metadata.aspects.declaration import SearchField, aspect

SERVICE_PROPERTIES: Final = aspect("serviceProperties")
"""A service: its name, what it provides, and the APIs that it has. MLflow: an MCP server."""

MCP_SERVER_PROPERTIES: Final = aspect("mcpServerProperties")
"""The connection of an MCP server; `timeout` is in seconds, the headers hold no secrets."""

SERVICE_DEFINITION: Final = aspect("serviceDefinition")
"""The document that describes the service, whole. MLflow: the server.json of a version."""

API_PROPERTIES: Final = aspect("apiProperties")
"""A callable with a name. MLflow: a tool of an MCP server."""

AGENT_SKILL_INFO: Final = aspect("agentSkillInfo")
"""A skill: its name, when to use it, what to do then, its files and the tools it needs."""

AI_AGENT_INFO: Final = aspect("aiAgentInfo")
"""An agent: its name, what it does, and its instructions. MLflow: an external model."""

AI_AGENT_DEPENDENCIES: Final = aspect(
    "aiAgentDependencies", edge_fields={"AgentHasSkill": "skills", "AgentUsesTool": "tools"}
)
"""The skills, the tools and the models of an agent."""

DOCUMENT_INFO: Final = aspect(
    "documentInfo",
    merge_keys={"relatedAssets": "asset", "relatedDocuments": "document"},
    edge_fields={
        "IsChildOf": "parentDocument",
        "RelatedAsset": "relatedAssets",
        "RelatedDocument": "relatedDocuments",
    },
    searched=(SearchField("contents.text", "text", "description", keyword=False),),
)
"""A document: its title, its text, and the assets that it is about. MLflow: a prompt."""

DOCUMENT_SETTINGS: Final = aspect("documentSettings")
"""Whether a document is among all documents, or only at the assets that it is about."""
