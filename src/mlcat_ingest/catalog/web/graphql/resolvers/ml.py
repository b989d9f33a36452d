"""The fields of the machine-learning entities and their properties."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.web.graphql.nodes import Node, Record
from mlcat_ingest.catalog.web.graphql.resolvers.common import Fields, Resolver, part, picked, texts
from mlcat_ingest.catalog.web.graphql.resolvers.entities import (
    custom_properties,
    properties,
    property_of_entity,
)

_BOXES: Final[Mapping[str, tuple[str, str]]] = {
    "string": ("StringBox", "stringValue"),
    "boolean": ("BooleanBox", "booleanValue"),
    "int": ("IntBox", "intValue"),
    "long": ("IntBox", "intValue"),
    "float": ("FloatBox", "floatValue"),
    "double": ("FloatBox", "floatValue"),
}
"""Union member of a stored hyper-parameter: the type it reads as, and its field."""

BOXES: Final = {field: type_name for type_name, field in _BOXES.values()}
"""Field of a boxed value to its GraphQL type."""


def _references(field: str, wrap: Callable[[list[Node] | None], Any]) -> Resolver:
    """Return the resolver of a list of URNs that reads as a list of entities, in stored order."""
    pick = picked(field)

    def resolve(record: Record, _info: GraphQLResolveInfo) -> Any:
        if not isinstance(record.value.get(field), list):
            return wrap(None)
        node = record.node
        return wrap(node.referred(node.kind.properties or "", field, pick, pick(record.value)))

    return resolve


def _features_or_null(record: Record, _info: GraphQLResolveInfo) -> list[str] | None:
    return texts(record.value.get("mlFeatures")) or None


def _version_text(record: Record, _info: GraphQLResolveInfo) -> str | None:
    version = record.value.get("version")
    return version.get("versionTag") if isinstance(version, dict) else None


def _lineage_info(record: Record, _info: GraphQLResolveInfo) -> Record | None:
    names = ("trainingJobs", "downstreamJobs")
    return record if any(record.value.get(name) for name in names) else None


def _hyper_parameter_map(record: Record, _info: GraphQLResolveInfo) -> list[Record] | None:
    value = record.value.get("hyperParameters")
    if not isinstance(value, dict):
        return None
    node = record.node
    return [
        Record(node, {"key": key, "value": {field: inner}})
        for key, boxed in value.items()
        if isinstance(boxed, dict)
        for kind, inner in boxed.items()
        if (field := _BOXES.get(kind, ("", ""))[1])
    ]


def _first_hyper_parameter(record: Record, info: GraphQLResolveInfo) -> Record | None:
    return next(iter(_hyper_parameter_map(record, info) or ()), None)


def _listed(nodes: list[Node] | None) -> list[Node] | None:
    return nodes


_FEATURE: Final[Fields] = {
    "name": part(1),
    "featureNamespace": part(0),
    "dataType": property_of_entity("dataType"),
}
_FEATURE_PROPERTIES: Final[Fields] = {
    "sources": _references("sources", _listed),
    "customProperties": custom_properties,
}

ML: Final[Mapping[str, Fields]] = {
    "MLModel": {"name": part(1)},
    "MLModelProperties": {
        "version": _version_text,
        "hyperParameters": _first_hyper_parameter,
        "hyperParameterMap": _hyper_parameter_map,
        "mlFeatures": _features_or_null,
        "groups": _references("groups", lambda nodes: nodes or []),
        "deployments": _references("deployments", _listed),
        "mlModelLineageInfo": _lineage_info,
        "customProperties": custom_properties,
    },
    "MLModelGroup": {"name": part(1)},
    "MLModelGroupProperties": {
        "mlModelLineageInfo": _lineage_info,
        "customProperties": custom_properties,
    },
    "MLFeature": {**_FEATURE, "featureProperties": properties},
    "MLFeatureProperties": _FEATURE_PROPERTIES,
    "MLFeatureTable": {"name": part(1), "featureTableProperties": properties},
    "MLFeatureTableProperties": {
        "mlFeatures": _references("mlFeatures", _listed),
        "mlPrimaryKeys": _references("mlPrimaryKeys", _listed),
        "customProperties": custom_properties,
    },
    "MLPrimaryKey": {**_FEATURE, "primaryKeyProperties": properties},
    "MLPrimaryKeyProperties": _FEATURE_PROPERTIES,
    "MLModelDeployment": {"name": part(1)},
    "MLModelDeploymentProperties": {"customProperties": custom_properties},
}
"""The fields of models, groups, features, tables, keys and deployments."""
