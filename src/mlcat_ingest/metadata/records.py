"""The table of aspects: name on the wire, record name, typed form where this package has one.

Reads answer an aspect under its record name (`com.linkedin.ml.metadata.MLModelProperties`), so
aspects that are only passed through stand here too. Source: DataHub's metadata model 1.7.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from mlcat_ingest.metadata import aspects


@dataclass(frozen=True, slots=True)
class AspectSpec:
    """One aspect: its name, its record, and its `TypedDict`, or None where any object will do.

    A `timeseries` aspect is a series of events; all others hold one value a version.
    """

    name: str
    record: str
    type: Any = None
    timeseries: bool = False


_TYPED: Final[Mapping[str, Mapping[str, type]]] = {
    "common": {
        "browsePaths": aspects.BrowsePaths,
        "browsePathsV2": aspects.BrowsePathsV2,
        "cost": aspects.Cost,
        "dataPlatformInstance": aspects.DataPlatformInstance,
        "deprecation": aspects.Deprecation,
        "documentation": aspects.Documentation,
        "globalTags": aspects.GlobalTags,
        "glossaryTerms": aspects.GlossaryTerms,
        "institutionalMemory": aspects.InstitutionalMemory,
        "ownership": aspects.Ownership,
        "status": aspects.Status,
        "subTypes": aspects.SubTypes,
        "versionProperties": aspects.VersionProperties,
    },
    "application": {"applications": aspects.Applications},
    "container": {
        "container": aspects.Container,
        "containerProperties": aspects.ContainerProperties,
    },
    "dataplatform": {"dataPlatformInfo": aspects.DataPlatformInfo},
    "dataplatforminstance": {
        "dataPlatformInstanceProperties": aspects.DataPlatformInstanceProperties
    },
    "dataprocess": {
        "dataProcessInstanceInput": aspects.DataProcessInstanceInput,
        "dataProcessInstanceOutput": aspects.DataProcessInstanceOutput,
        "dataProcessInstanceProperties": aspects.DataProcessInstanceProperties,
        "dataProcessInstanceRelationships": aspects.DataProcessInstanceRelationships,
        "dataProcessInstanceRunEvent": aspects.DataProcessInstanceRunEvent,
    },
    "dataproduct": {"dataProducts": aspects.DataProducts},
    "datajob": {"dataJobInputOutput": aspects.DataJobInputOutput},
    "dataset": {
        "datasetProperties": aspects.DatasetProperties,
        "upstreamLineage": aspects.UpstreamLineage,
    },
    "domain": {"domains": aspects.Domains},
    "metadata.key": {
        "corpGroupKey": aspects.CorpGroupKey,
        "corpUserKey": aspects.CorpUserKey,
        "containerKey": aspects.ContainerKey,
        "dataFlowKey": aspects.DataFlowKey,
        "dataJobKey": aspects.DataJobKey,
        "dataPlatformInstanceKey": aspects.DataPlatformInstanceKey,
        "dataPlatformKey": aspects.DataPlatformKey,
        "dataProcessInstanceKey": aspects.DataProcessInstanceKey,
        "datasetKey": aspects.DatasetKey,
        "domainKey": aspects.DomainKey,
        "glossaryTermKey": aspects.GlossaryTermKey,
        "mlFeatureKey": aspects.MLFeatureKey,
        "mlFeatureTableKey": aspects.MLFeatureTableKey,
        "mlModelDeploymentKey": aspects.MLModelDeploymentKey,
        "mlModelGroupKey": aspects.MLModelGroupKey,
        "mlModelKey": aspects.MLModelKey,
        "mlPrimaryKeyKey": aspects.MLPrimaryKeyKey,
        "tagKey": aspects.TagKey,
        "testKey": aspects.TestKey,
        "versionSetKey": aspects.VersionSetKey,
    },
    "ml.metadata": {
        "intendedUse": aspects.IntendedUse,
        "mlFeatureProperties": aspects.MLFeatureProperties,
        "mlFeatureTableProperties": aspects.MLFeatureTableProperties,
        "mlModelCaveatsAndRecommendations": aspects.CaveatsAndRecommendations,
        "mlModelDeploymentProperties": aspects.MLModelDeploymentProperties,
        "mlModelEthicalConsiderations": aspects.EthicalConsiderations,
        "mlModelEvaluationData": aspects.EvaluationData,
        "mlModelFactorPrompts": aspects.MLModelFactorPrompts,
        "mlModelGroupProperties": aspects.MLModelGroupProperties,
        "mlModelMetrics": aspects.Metrics,
        "mlModelProperties": aspects.MLModelProperties,
        "mlModelQuantitativeAnalyses": aspects.QuantitativeAnalyses,
        "mlModelTrainingData": aspects.TrainingData,
        "mlPrimaryKeyProperties": aspects.MLPrimaryKeyProperties,
        "mlTrainingRunProperties": aspects.MLTrainingRunProperties,
        "sourceCode": aspects.SourceCode,
    },
    "structured": {
        "structuredProperties": aspects.StructuredProperties,
        "structuredPropertyKey": aspects.StructuredPropertyKey,
    },
    "tag": {"tagProperties": aspects.TagProperties},
    "test": {"testInfo": aspects.TestInfo, "testResults": aspects.TestResults},
    "versionset": {"versionSetProperties": aspects.VersionSetProperties},
}

_EDITABLE = {
    "editableContainerProperties": "container.EditableContainerProperties",
    "editableMlFeatureProperties": "ml.metadata.EditableMLFeatureProperties",
    "editableMlFeatureTableProperties": "ml.metadata.EditableMLFeatureTableProperties",
    "editableMlModelGroupProperties": "ml.metadata.EditableMLModelGroupProperties",
    "editableMlModelProperties": "ml.metadata.EditableMLModelProperties",
    "editableMlPrimaryKeyProperties": "ml.metadata.EditableMLPrimaryKeyProperties",
}

_PASSED_THROUGH = {
    "access": "common.Access",
    "aliases": "common.Aliases",
    "assetSettings": "settings.asset.AssetSettings",
    "corpGroupEditableInfo": "identity.CorpGroupEditableInfo",
    "corpGroupInfo": "identity.CorpGroupInfo",
    "corpUserCredentials": "identity.CorpUserCredentials",
    "corpUserEditableInfo": "identity.CorpUserEditableInfo",
    "corpUserInfo": "identity.CorpUserInfo",
    "corpUserSettings": "identity.CorpUserSettings",
    "corpUserStatus": "identity.CorpUserStatus",
    "dataFlowInfo": "datajob.DataFlowInfo",
    "dataHubExecutionRequestInput": "execution.ExecutionRequestInput",
    "dataHubExecutionRequestKey": "metadata.key.ExecutionRequestKey",
    "dataHubExecutionRequestResult": "execution.ExecutionRequestResult",
    "dataHubIngestionSourceInfo": "ingestion.DataHubIngestionSourceInfo",
    "dataHubIngestionSourceKey": "metadata.key.DataHubIngestionSourceKey",
    "dataJobInfo": "datajob.DataJobInfo",
    "dataTransformLogic": "common.DataTransformLogic",
    "datasetDeprecation": "dataset.DatasetDeprecation",
    "datasetUpstreamLineage": "dataset.DatasetUpstreamLineage",
    "displayProperties": "common.DisplayProperties",
    "domainProperties": "domain.DomainProperties",
    "editableDataFlowProperties": "datajob.EditableDataFlowProperties",
    "editableDataJobProperties": "datajob.EditableDataJobProperties",
    "editableDatasetProperties": "dataset.EditableDatasetProperties",
    "editableSchemaMetadata": "schema.EditableSchemaMetadata",
    "embed": "common.Embed",
    "forms": "common.Forms",
    "glossaryRelatedTerms": "glossary.GlossaryRelatedTerms",
    "glossaryTermInfo": "glossary.GlossaryTermInfo",
    "groupMembership": "identity.GroupMembership",
    "icebergCatalogInfo": "dataset.IcebergCatalogInfo",
    "icebergWarehouseInfo": "dataplatforminstance.IcebergWarehouseInfo",
    "incidentsSummary": "common.IncidentsSummary",
    "logicalParent": "logical.LogicalParent",
    "nativeGroupMembership": "identity.NativeGroupMembership",
    "origin": "common.Origin",
    "partitionsSummary": "dataset.PartitionsSummary",
    "propertyDefinition": "structured.StructuredPropertyDefinition",
    "roleMembership": "identity.RoleMembership",
    "schemaMetadata": "schema.SchemaMetadata",
    "semanticModelProperties": "dataset.SemanticModelProperties",
    "siblings": "common.Siblings",
    "slackUserInfo": "dataplatform.slack.SlackUserInfo",
    "storageFeatures": "metadata.search.features.StorageFeatures",
    "structuredPropertySettings": "structured.StructuredPropertySettings",
    "upstreamMetrics": "common.UpstreamMetrics",
    "usageFeatures": "metadata.search.features.UsageFeatures",
    "versionInfo": "datajob.VersionInfo",
    "viewProperties": "dataset.ViewProperties",
}

_EVENTS = {
    "datahubIngestionCheckpoint": "datajob.datahub.DatahubIngestionCheckpoint",
    "datahubIngestionRunSummary": "datajob.datahub.DatahubIngestionRunSummary",
    "datasetProfile": "dataset.DatasetProfile",
    "datasetUsageStatistics": "dataset.DatasetUsageStatistics",
    "operation": "common.Operation",
}


def _table() -> dict[str, AspectSpec]:
    specs = [
        AspectSpec(
            name,
            f"com.linkedin.{package}.{typed.__name__}",
            typed,
            timeseries=name == "dataProcessInstanceRunEvent",
        )
        for package, rows in _TYPED.items()
        for name, typed in rows.items()
    ]
    specs += [
        AspectSpec(name, f"com.linkedin.{record}", aspects.EditableDescription)
        for name, record in _EDITABLE.items()
    ]
    specs += [
        AspectSpec(name, f"com.linkedin.{record}") for name, record in _PASSED_THROUGH.items()
    ]
    specs += [
        AspectSpec(name, f"com.linkedin.{record}", timeseries=True)
        for name, record in _EVENTS.items()
    ]
    return {spec.name: spec for spec in specs}


ASPECTS: Final[Mapping[str, AspectSpec]] = MappingProxyType(_table())
"""Aspect name to aspect, for every aspect of the entity types in `entities.ENTITIES`."""
