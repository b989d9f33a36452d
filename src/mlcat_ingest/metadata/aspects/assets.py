"""Aspects of what models are linked to: platforms, datasets, containers, tags and tests.

Source: `com.linkedin.dataplatform.*`, `com.linkedin.container.*`,
`com.linkedin.dataset.*`, `com.linkedin.tag.*`, `com.linkedin.test.*` of DataHub's metadata model.
"""

# ruff: noqa: N815 - fields are spelled as on the wire

from typing import Annotated, Final, Literal, NotRequired, Required, TypedDict

from mlcat_ingest.metadata.aspects.common import AuditStamp, CustomProperties, FabricType, TimeStamp
from mlcat_ingest.metadata.aspects.declaration import (
    EMPTY_LIST,
    AnyUrn,
    Default,
    Edge,
    Int32,
    Millis,
    UrnOf,
    aspect,
)


class _DataPlatformInfo(TypedDict):
    """A platform: its short name, what kind of system it is, and how it parts dataset names."""

    name: str
    type: Literal[
        "FILE_SYSTEM", "KEY_VALUE_STORE", "MESSAGE_BROKER", "OBJECT_STORE", "OLAP_DATASTORE",
        "OTHERS", "QUERY_ENGINE", "RELATIONAL_DB", "SEARCH_ENGINE",
    ]  # fmt: skip
    datasetNameDelimiter: str
    displayName: NotRequired[str]
    logoUrl: NotRequired[str]
    logical: NotRequired[bool]


DATA_PLATFORM_INFO: Final = aspect("dataPlatformInfo", _DataPlatformInfo)


class _DataPlatformInstanceProperties(CustomProperties, total=False):
    """One installation of a platform: name to show, description, address."""

    externalUrl: str
    name: str
    description: str


DATA_PLATFORM_INSTANCE_PROPERTIES: Final = aspect(
    "dataPlatformInstanceProperties", _DataPlatformInstanceProperties
)


_LineageMatch = Literal["EXACT", "NORMALIZED", "UNRESOLVED"]


class _Upstream(TypedDict):
    """A dataset that another one is made from."""

    dataset: Annotated[str, Edge("DownstreamOf", "dataset", lineage="upstream")]
    type: Literal["COPY", "TRANSFORMED", "VIEW"]
    auditStamp: NotRequired[
        Annotated[AuditStamp, Default('{"time": 0, "actor": "urn:li:corpuser:unknown"}')]
    ]
    created: NotRequired[AuditStamp]
    properties: NotRequired[dict[str, str]]
    query: NotRequired[AnyUrn]
    matchType: NotRequired[_LineageMatch]


class FineGrainedLineage(TypedDict):
    """Fields, or datasets, that fields are made from, and how."""

    upstreamType: Literal["FIELD_SET", "DATASET", "NONE"]
    downstreamType: Literal["FIELD", "FIELD_SET"]
    upstreams: NotRequired[list[AnyUrn]]
    downstreams: NotRequired[list[AnyUrn]]
    transformOperation: NotRequired[str]
    confidenceScore: NotRequired[Annotated[float, Default("1.0")]]
    query: NotRequired[AnyUrn]
    matchType: NotRequired[_LineageMatch]


class _UpstreamLineage(TypedDict):
    """Upstream lineage of a dataset, as a whole and field by field."""

    upstreams: list[_Upstream]
    fineGrainedLineages: NotRequired[
        Annotated[
            list[FineGrainedLineage],
            Edge("DownstreamOf", "dataset schemaField", at="upstreams"),
        ]
    ]


UPSTREAM_LINEAGE: Final = aspect(
    "upstreamLineage", _UpstreamLineage, patch_keys={"upstreams": "dataset"}
)


class _DatasetProperties(CustomProperties, total=False):
    """A dataset: name to show, full name, description and addresses. MLflow: a dataset input."""

    externalUrl: str
    name: str
    qualifiedName: str
    description: str
    uri: str
    created: TimeStamp
    lastModified: TimeStamp
    tags: Annotated[list[str], EMPTY_LIST]


DATASET_PROPERTIES: Final = aspect("datasetProperties", _DatasetProperties, patch_keys={})


class _TagProperties(TypedDict):
    """A tag: name to show, description, colour as `#rrggbb`."""

    name: str
    description: NotRequired[str]
    colorHex: NotRequired[str]


TAG_PROPERTIES: Final = aspect("tagProperties", _TagProperties)


class _ContainerProperties(CustomProperties, total=False):
    """A container of assets; `qualifiedName` is its full name at the source."""

    externalUrl: str
    name: Required[str]
    qualifiedName: str
    description: str
    env: FabricType
    created: TimeStamp
    lastModified: TimeStamp


CONTAINER_PROPERTIES: Final = aspect("containerProperties", _ContainerProperties)


class _TestDefinition(TypedDict):
    """A metadata test's rules; `json` is a JSON text."""

    type: Literal["JSON"]
    json: NotRequired[str]


class _TestInfo(TypedDict):
    """A metadata test: its name, its category (free text) and its rules."""

    name: str
    category: str
    definition: _TestDefinition
    description: NotRequired[str]


TEST_INFO: Final = aspect("testInfo", _TestInfo)


class TestResult(TypedDict):
    """How one metadata test went, under which version of its definition (MD5), and when."""

    test: Annotated[str, UrnOf("test")]
    type: Literal["SUCCESS", "FAILURE"]
    testDefinitionMd5: NotRequired[str]
    lastComputed: NotRequired[AuditStamp]


class TestResults(TypedDict):
    """The metadata tests that the entity passes and fails; written by the catalog."""

    failing: Annotated[
        list[TestResult], Edge("IsFailing", "test", at="test", search="failingTests")
    ]
    passing: Annotated[
        list[TestResult], Edge("IsPassing", "test", at="test", search="passingTests")
    ]


TEST_RESULTS: Final = aspect("testResults", TestResults)


class _IncidentStatus(TypedDict):
    """Whether an incident is over, how far people are with it, their note, and who set it."""

    state: Literal["ACTIVE", "RESOLVED"]
    stage: NotRequired[
        Literal["TRIAGE", "INVESTIGATION", "WORK_IN_PROGRESS", "FIXED", "NO_ACTION_REQUIRED"]
    ]
    message: NotRequired[str]
    lastUpdated: AuditStamp


class IncidentSource(TypedDict):
    """What raised an incident; `sourceUrn` of one that a metadata test raised is the test."""

    type: Literal["MANUAL", "ASSERTION_FAILURE"]
    sourceUrn: NotRequired[AnyUrn]


class _IncidentAssignee(TypedDict):
    """A user or group that an incident is assigned to, and since when."""

    actor: Annotated[str, UrnOf("corpuser corpGroup")]
    assignedAt: AuditStamp


class _IncidentInfo(TypedDict):
    """An incident: what is wrong with which entities, from 0 (critical) to 3 by priority."""

    type: Literal["FRESHNESS", "VOLUME", "FIELD", "SQL", "DATA_SCHEMA", "OPERATIONAL", "CUSTOM"]
    customType: NotRequired[str]
    title: NotRequired[str]
    description: NotRequired[str]
    entities: Annotated[
        list[str],
        Edge(
            "IncidentOn",
            "aiAgent chart dashboard dataFlow dataJob dataset mlFeature mlFeatureTable mlModel"
            " schemaField service",
        ),
    ]
    priority: NotRequired[Int32]
    assignees: NotRequired[list[_IncidentAssignee]]
    status: _IncidentStatus
    source: NotRequired[IncidentSource]
    startedAt: NotRequired[Millis]
    created: AuditStamp


INCIDENT_INFO: Final = aspect("incidentInfo", _IncidentInfo)


class _IncidentSummaryDetails(TypedDict):
    """An incident of the entity: its type, when it was raised and resolved, its priority."""

    urn: AnyUrn
    type: str
    createdAt: Millis
    resolvedAt: NotRequired[Millis]
    priority: NotRequired[Int32]


class _IncidentsSummary(TypedDict, total=False):
    """The incidents of an entity, which the catalog lists; the lists of URNs are older."""

    resolvedIncidents: Annotated[list[AnyUrn], EMPTY_LIST]
    activeIncidents: Annotated[list[AnyUrn], EMPTY_LIST]
    resolvedIncidentDetails: Annotated[
        list[_IncidentSummaryDetails], EMPTY_LIST, Edge("ResolvedIncidents", "incident", at="urn")
    ]
    activeIncidentDetails: Annotated[
        list[_IncidentSummaryDetails], EMPTY_LIST, Edge("ActiveIncidents", "incident", at="urn")
    ]


INCIDENTS_SUMMARY: Final = aspect("incidentsSummary", _IncidentsSummary)
