"""The table of entity types: which aspects each may have, and what follows from that.

An entity type that is not in the table is open: it may have any aspect, and nothing in it is
checked. Source: the entity registry of DataHub's metadata model 1.7.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from mlcat_ingest.metadata.aspects.markers import Default, Edge
from mlcat_ingest.metadata.record_names import OPEN_RECORDS
from mlcat_ingest.metadata.records import ASPECTS, AspectSpec
from mlcat_ingest.metadata.shapes import fields
from mlcat_ingest.metadata.urn import KINDS, check, entity_type_of

__all__ = [
    "ASPECTS",
    "ENTITIES",
    "AspectSpec",
    "EntityKind",
    "allows",
    "defaults",
    "edges",
    "implied_aspect",
    "key_aspect",
    "key_aspect_name",
    "record_name",
]


@dataclass(frozen=True, slots=True)
class EntityKind:
    """One entity type: the aspect made of its URN, all aspects it may have, and the main one."""

    entity_type: str
    key: str
    aspects: frozenset[str]
    properties: str | None


_GOVERNED = (
    "ownership status deprecation globalTags glossaryTerms domains dataProducts applications "
    "institutionalMemory dataPlatformInstance structuredProperties forms testResults subTypes "
)
_BROWSED = "browsePaths browsePathsV2 documentation "
_FLOW = f"{_GOVERNED}{_BROWSED}versionInfo container incidentsSummary "

# Entity type, its main aspect ("-" where none is implied), and the other aspects it may have.
_ROWS = (
    (
        "mlModel",
        "mlModelProperties",
        (
            f"{_GOVERNED}{_BROWSED}editableMlModelProperties intendedUse mlModelFactorPrompts "
            "mlModelMetrics mlModelEvaluationData mlModelTrainingData mlModelQuantitativeAnalyses "
            "mlModelEthicalConsiderations mlModelCaveatsAndRecommendations sourceCode cost "
            "incidentsSummary versionProperties container"
        ),
    ),
    (
        "mlModelGroup",
        "mlModelGroupProperties",
        f"{_GOVERNED}{_BROWSED}editableMlModelGroupProperties container",
    ),
    (
        "mlFeature",
        "mlFeatureProperties",
        f"{_GOVERNED}{_BROWSED}editableMlFeatureProperties incidentsSummary",
    ),
    (
        "mlFeatureTable",
        "mlFeatureTableProperties",
        f"{_GOVERNED}{_BROWSED}editableMlFeatureTableProperties incidentsSummary",
    ),
    ("mlPrimaryKey", "mlPrimaryKeyProperties", f"{_GOVERNED}editableMlPrimaryKeyProperties"),
    (
        "mlModelDeployment",
        "mlModelDeploymentProperties",
        "ownership status deprecation globalTags dataPlatformInstance testResults container",
    ),
    (
        "dataset",
        "datasetProperties",
        (
            f"{_GOVERNED}{_BROWSED}viewProperties semanticModelProperties datasetProfile "
            "datasetUsageStatistics usageFeatures storageFeatures operation schemaMetadata "
            "container siblings embed incidentsSummary editableDatasetProperties "
            "datasetDeprecation datasetUpstreamLineage upstreamLineage upstreamMetrics "
            "editableSchemaMetadata access partitionsSummary versionProperties "
            "icebergCatalogInfo logicalParent assetSettings aliases"
        ),
    ),
    ("dataPlatform", "dataPlatformInfo", ""),
    (
        "dataPlatformInstance",
        "dataPlatformInstanceProperties",
        "ownership globalTags institutionalMemory deprecation status icebergWarehouseInfo",
    ),
    ("dataFlow", "dataFlowInfo", f"{_FLOW}editableDataFlowProperties"),
    (
        "dataJob",
        "dataJobInfo",
        (
            f"{_FLOW}editableDataJobProperties dataJobInputOutput dataTransformLogic "
            "datahubIngestionRunSummary datahubIngestionCheckpoint"
        ),
    ),
    (
        "dataProcessInstance",
        "dataProcessInstanceProperties",
        (
            "dataProcessInstanceInput dataProcessInstanceOutput dataProcessInstanceRelationships "
            "dataProcessInstanceRunEvent mlTrainingRunProperties status testResults "
            "dataPlatformInstance subTypes container"
        ),
    ),
    ("versionSet", "versionSetProperties", ""),
    (
        "container",
        "containerProperties",
        f"{_GOVERNED}{_BROWSED}editableContainerProperties container access",
    ),
    ("tag", "tagProperties", "ownership deprecation status testResults"),
    (
        "glossaryTerm",
        "glossaryTermInfo",
        (
            "ownership status deprecation globalTags domains applications institutionalMemory "
            "structuredProperties forms testResults subTypes glossaryRelatedTerms schemaMetadata "
            "browsePaths displayProperties assetSettings"
        ),
    ),
    (
        "domain",
        "domainProperties",
        (
            "institutionalMemory ownership deprecation structuredProperties forms testResults "
            "displayProperties assetSettings"
        ),
    ),
    (
        "structuredProperty",
        "propertyDefinition",
        "structuredPropertySettings institutionalMemory status",
    ),
    (
        "corpuser",
        "corpUserInfo",
        (
            "corpUserEditableInfo corpUserStatus groupMembership globalTags status "
            "corpUserCredentials nativeGroupMembership corpUserSettings origin roleMembership "
            "structuredProperties forms testResults subTypes slackUserInfo"
        ),
    ),
    (
        "corpGroup",
        "corpGroupInfo",
        (
            "corpGroupEditableInfo globalTags ownership status origin roleMembership "
            "structuredProperties forms testResults subTypes"
        ),
    ),
    ("test", "testInfo", ""),
)


def _kind(entity_type: str, properties: str, others: str) -> EntityKind:
    key = "corpUserKey" if entity_type == "corpuser" else f"{entity_type}Key"
    return EntityKind(entity_type, key, frozenset({key, properties, *others.split()}), properties)


ENTITIES: Final[Mapping[str, EntityKind]] = MappingProxyType({row[0]: _kind(*row) for row in _ROWS})
"""Entity type to what is known of it."""


def allows(entity_type: str, aspect_name: str) -> bool:
    """Return whether an entity of this type may have this aspect; open types may have any."""
    kind = ENTITIES.get(entity_type)
    return kind is None or aspect_name in kind.aspects


def implied_aspect(entity_type: str) -> str | None:
    """Return the aspect that a proposal means which names none; None for an open type."""
    kind = ENTITIES.get(entity_type)
    return None if kind is None else kind.properties


def record_name(aspect_name: str) -> str | None:
    """Return the record name that reads answer an aspect under; None for an unknown aspect."""
    spec = ASPECTS.get(aspect_name)
    return OPEN_RECORDS.get(aspect_name) if spec is None else spec.record


def key_aspect_name(entity_type: str) -> str:
    """Return the name of the aspect that is made of the URN; of open types by convention."""
    kind = ENTITIES.get(entity_type)
    return f"{entity_type}Key" if kind is None else kind.key


def key_aspect(urn: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the value of the key aspect that `urn` stands for.

    Parts are spelled as in the URN. Open types have the whole id as `id`.

    Raises:
        InvalidUrnError: `urn` is no URN, or breaks a rule of its kind.
    """
    parts = check(urn)
    entity_type = entity_type_of(urn)
    name = key_aspect_name(entity_type)
    if entity_type not in KINDS:
        return name, {"id": urn.split(":", 3)[3]}
    return name, dict(zip(fields(ASPECTS[name].type), parts, strict=True))


def defaults(aspect_name: str) -> dict[str, Any]:
    """Return what the service fills in where an aspect leaves a field out, as a fresh value."""
    spec = ASPECTS.get(aspect_name)
    if spec is None or spec.type is None:
        return {}
    return {
        field.name: json.loads(marker.json)
        for field in fields(spec.type).values()
        for marker in field.markers
        if isinstance(marker, Default)
    }


def edges(aspect_name: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the relationship and the destination URN of every edge in an aspect, each once.

    Values that are not of the declared shape are passed over.
    """
    spec = ASPECTS.get(aspect_name)
    if spec is None or spec.type is None:
        return
    seen: set[tuple[str, str]] = set()
    for find in _finders(spec.type):
        for edge in find(value):
            if edge not in seen:
                seen.add(edge)
                yield edge


_Finder: TypeAlias = Callable[[Mapping[str, Any]], Iterator[tuple[str, str]]]


@cache
def _finders(record: Any) -> tuple[_Finder, ...]:
    found: list[_Finder] = []
    for field in fields(record).values():
        found.extend(
            _edge_finder(field.name, marker) for marker in field.markers if isinstance(marker, Edge)
        )
        nested = _nested_record(field.hint)
        if nested is not None and (inner := _finders(nested)):
            found.append(_nested_finder(field.name, inner))
    return tuple(found)


def _nested_record(hint: Any) -> Any:
    """Return the record class behind a field, or behind the items of its list."""
    item = hint.__args__[0] if getattr(hint, "__origin__", None) is list else hint
    return item if hasattr(item, "__required_keys__") else None


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _edge_finder(name: str, marker: Edge) -> _Finder:
    def find(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for item in _items(value.get(name)):
            held = item
            if marker.at is not None:
                held = item.get(marker.at) if isinstance(item, Mapping) else None
            for urn in _items(held):
                if isinstance(urn, str):
                    yield marker.relationship, urn

    return find


def _nested_finder(name: str, inner: tuple[_Finder, ...]) -> _Finder:
    def find(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for item in _items(value.get(name)):
            if isinstance(item, Mapping):
                for finder in inner:
                    yield from finder(item)

    return find
