"""Aspects of models, model groups, features, feature tables, primary keys and deployments.

Source: `com.linkedin.ml.metadata.*` of DataHub's metadata model. Texts are plain text unless said
otherwise. "MLflow" names the place that this package's own mapping fills a field from.
"""

# ruff: noqa: N815 - fields are spelled as on the wire

from typing import Annotated, Final, Literal, NotRequired, Required, TypeAlias, TypedDict

from mlcat_ingest.metadata.aspects.common import CustomProperties, TimeStamp, VersionTag
from mlcat_ingest.metadata.aspects.declaration import (
    EMPTY_LIST,
    Edge,
    Int32,
    Millis,
    OneOf,
    UrnOf,
    aspect,
)

MLFeatureDataType: TypeAlias = Literal[
    "USELESS", "NOMINAL", "ORDINAL", "BINARY", "COUNT", "TIME", "INTERVAL", "IMAGE", "VIDEO",
    "AUDIO", "TEXT", "MAP", "SEQUENCE", "SET", "CONTINUOUS", "BYTE", "UNKNOWN",
]  # fmt: skip
"""The kind of a feature's values; a list of anything is a SEQUENCE."""

JobUrns: TypeAlias = Annotated[
    list[str], Edge("TrainedBy", "dataJob dataProcessInstance", lineage="upstream")
]
UserUrns: TypeAlias = Annotated[
    list[str], Edge("UsedBy", "dataJob dataProcessInstance", lineage="downstream")
]
SourceUrns: TypeAlias = Annotated[list[str], Edge("DerivedFrom", "dataset", lineage="upstream")]


class MLHyperParam(TypedDict):
    """One hyperparameter; the value is text, as logged. MLflow: a run's param."""

    name: str
    description: NotRequired[str]
    value: NotRequired[str]
    createdAt: NotRequired[Millis]


class MLMetric(TypedDict):
    """One metric; the value is text, so that NaN and infinities survive. MLflow: a run's metric."""

    name: str
    description: NotRequired[str]
    value: NotRequired[str]
    createdAt: NotRequired[Millis]


HyperParameterValue = TypedDict(  # noqa: UP013 - the names of two fields are names of types
    "HyperParameterValue",
    {"string": str, "int": Int32, "float": float, "double": float, "boolean": bool},
    total=False,
)
"""A value of the older `hyperParameters`, wrapped by the name of its type."""


class _MLModelProperties(CustomProperties, total=False):
    """The properties of a model: the outcome of one training run.

    Attributes:
        customProperties: what has no other field. MLflow: tags, ids, states.
        externalUrl: absolute address of the run's page at its source.
        trainingJobs: jobs and runs that made the model.
        downstreamJobs: jobs and runs that use the model.
        name: name to show. MLflow: the run's name.
        description: Markdown. MLflow: `mlflow.note.content`.
        date: when the model was made, ms; older twin of `created`.
        created: when the model was made, and by whom. MLflow: the run's start and user.
        lastModified: when it last changed. MLflow: the run's end.
        version: version name. MLflow: the registered version behind the run.
        type: free text naming the kind of model. MLflow: the flavour.
        hyperParameters: older form of `hyperParams`; never written by this package.
        hyperParams: keyed by name. MLflow: params.
        trainingMetrics: keyed by name. MLflow: last values of the metrics.
        onlineMetrics: keyed by name; measured in production.
        mlFeatures: features that the model was trained on.
        tags: older plain tags; the catalog's own are in `globalTags`.
        deployments: where the model is served.
        groups: groups that hold the model. MLflow: experiment and registered models.
    """

    externalUrl: str
    trainingJobs: JobUrns
    downstreamJobs: UserUrns
    name: str
    description: str
    date: Millis
    created: TimeStamp
    lastModified: TimeStamp
    version: VersionTag
    type: str
    hyperParameters: dict[str, Annotated[HyperParameterValue, OneOf]]
    hyperParams: list[MLHyperParam]
    trainingMetrics: list[MLMetric]
    onlineMetrics: list[MLMetric]
    mlFeatures: Annotated[list[str], Edge("Consumes", "mlFeature", lineage="upstream")]
    tags: Annotated[list[str], EMPTY_LIST]
    deployments: Annotated[list[str], Edge("DeployedTo", "mlModelDeployment")]
    groups: Annotated[list[str], Edge("MemberOf", "mlModelGroup", lineage="downstream")]


ML_MODEL_PROPERTIES: Final = aspect(
    "mlModelProperties",
    _MLModelProperties,
    merge_keys={"hyperParams": "name", "trainingMetrics": "name", "onlineMetrics": "name"},
)


class _MLModelGroupProperties(CustomProperties, total=False):
    """The properties of a group: the container of all runs of one model.

    Attributes:
        customProperties: what has no other field. MLflow: experiment or registered-model tags.
        trainingJobs: jobs and runs that made the members.
        downstreamJobs: jobs and runs that use the members.
        externalUrl: absolute address of the experiment's or registered model's page.
        name: name to show. MLflow: the experiment's or registered model's name.
        description: Markdown. MLflow: `mlflow.note.content`, the registered model's description.
        createdAt: when the group was made, ms; older twin of `created`.
        created: when the group was made, and by whom.
        lastModified: when it last changed.
        version: name of the newest version. MLflow: highest version number.
    """

    trainingJobs: JobUrns
    downstreamJobs: UserUrns
    externalUrl: str
    name: str
    description: str
    createdAt: Millis
    created: TimeStamp
    lastModified: TimeStamp
    version: VersionTag


ML_MODEL_GROUP_PROPERTIES: Final = aspect("mlModelGroupProperties", _MLModelGroupProperties)


class _MLFeatureProperties(CustomProperties, total=False):
    """The properties of a feature; its name is in its URN.

    Attributes:
        customProperties: what has no other field; feature stores' own tags and types.
        description: Markdown; the feature store's description.
        dataType: kind of the values, mapped from the feature store's type.
        version: version name.
        sources: datasets that the feature is computed from.
    """

    description: str
    dataType: MLFeatureDataType
    version: VersionTag
    sources: SourceUrns


ML_FEATURE_PROPERTIES: Final = aspect("mlFeatureProperties", _MLFeatureProperties)


class _MLFeatureTableProperties(CustomProperties, total=False):
    """The properties of a feature table: a feature view or feature group.

    Attributes:
        customProperties: what has no other field.
        description: Markdown; the feature store's description.
        mlFeatures: the features of the table, in its order.
        mlPrimaryKeys: the keys that its rows are looked up by.
    """

    description: str
    mlFeatures: Annotated[list[str], Edge("Contains", "mlFeature")]
    mlPrimaryKeys: Annotated[list[str], Edge("KeyedBy", "mlPrimaryKey")]


ML_FEATURE_TABLE_PROPERTIES: Final = aspect("mlFeatureTableProperties", _MLFeatureTableProperties)


class _MLFeatureTableKey(TypedDict):
    """Key of a feature table, spelled as in its URN."""

    platform: Annotated[str, Edge("SourcePlatform", "dataPlatform")]
    name: str


aspect("mlFeatureTableKey", _MLFeatureTableKey)


class _MLPrimaryKeyProperties(CustomProperties, total=False):
    """The properties of a primary key: an entity that features are looked up by.

    Attributes:
        customProperties: what has no other field.
        description: Markdown; the feature store's description.
        dataType: kind of the values.
        version: version name.
        sources: datasets that hold the key; required, may be empty.
    """

    description: str
    dataType: MLFeatureDataType
    version: VersionTag
    sources: Required[SourceUrns]


ML_PRIMARY_KEY_PROPERTIES: Final = aspect("mlPrimaryKeyProperties", _MLPrimaryKeyProperties)


class _MLModelDeploymentProperties(CustomProperties, total=False):
    """The properties of a deployment: an endpoint that serves models.

    Attributes:
        customProperties: what has no other field.
        externalUrl: absolute address of the endpoint's page.
        description: Markdown.
        createdAt: when it was made, ms.
        version: version name.
        status: whether it serves.
    """

    externalUrl: str
    description: str
    createdAt: Millis
    version: VersionTag
    status: Literal[
        "OUT_OF_SERVICE", "CREATING", "UPDATING", "ROLLING_BACK", "IN_SERVICE", "DELETING",
        "FAILED", "UNKNOWN",
    ]  # fmt: skip


ML_MODEL_DEPLOYMENT_PROPERTIES: Final = aspect(
    "mlModelDeploymentProperties", _MLModelDeploymentProperties
)


class _SourceCodeUrl(TypedDict):
    """The address of code, and what the code does."""

    type: Literal[
        "ML_MODEL_SOURCE_CODE", "TRAINING_PIPELINE_SOURCE_CODE", "EVALUATION_PIPELINE_SOURCE_CODE"
    ]
    sourceCodeUrl: str


class _SourceCode(TypedDict):
    """The place of the code. MLflow: git repository and commit of the run."""

    sourceCode: list[_SourceCodeUrl]


SOURCE_CODE: Final = aspect(
    "sourceCode", _SourceCode, merge_keys={"sourceCode": "type sourceCodeUrl"}
)


IntendedUserType: TypeAlias = Literal["ENTERPRISE", "HOBBY", "ENTERTAINMENT"]


class _IntendedUse(TypedDict, total=False):
    """The purpose and the users of the model, and the uses that it is not made for."""

    primaryUses: list[str]
    primaryUsers: list[IntendedUserType]
    outOfScopeUses: list[str]


INTENDED_USE: Final = aspect("intendedUse", _IntendedUse)


class _MLModelFactors(TypedDict, total=False):
    """Factors that the performance varies with: groups of people, instruments, environments."""

    groups: list[str]
    instrumentation: list[str]
    environment: list[str]


class _MLModelFactorPrompts(TypedDict, total=False):
    """The factors that are foreseen, and those that results are reported for."""

    relevantFactors: list[_MLModelFactors]
    evaluationFactors: list[_MLModelFactors]


ML_MODEL_FACTOR_PROMPTS: Final = aspect("mlModelFactorPrompts", _MLModelFactorPrompts)


class _EthicalConsiderations(TypedDict, total=False):
    """Sensitive data, decisions about people, risks, and what is done about these."""

    data: list[str]
    humanLife: list[str]
    mitigations: list[str]
    risksAndHarms: list[str]
    useCases: list[str]


ML_MODEL_ETHICAL_CONSIDERATIONS: Final = aspect(
    "mlModelEthicalConsiderations", _EthicalConsiderations
)


class _CaveatDetails(TypedDict, total=False):
    """The limits of the model that no other field holds."""

    needsFurtherTesting: bool
    caveatDescription: str
    groupsNotRepresented: list[str]


class _CaveatsAndRecommendations(TypedDict, total=False):
    """The limits of the model, where to use it, and what data to evaluate it on."""

    caveats: _CaveatDetails
    recommendations: str
    idealDatasetCharacteristics: list[str]


ML_MODEL_CAVEATS_AND_RECOMMENDATIONS: Final = aspect(
    "mlModelCaveatsAndRecommendations",
    _CaveatsAndRecommendations,
    yields=frozenset({"caveats", "recommendations"}),
)


class _BaseData(TypedDict):
    """One dataset of a model: why it was chosen, and how it was prepared."""

    dataset: Annotated[str, UrnOf("dataset")]
    motivation: NotRequired[str]
    preProcessing: NotRequired[list[str]]


class _TrainingData(TypedDict):
    """The training data of the model. MLflow: dataset inputs of training contexts."""

    trainingData: Annotated[list[_BaseData], Edge("TrainedOn", "dataset", at="dataset", ours=True)]


ML_MODEL_TRAINING_DATA: Final = aspect(
    "mlModelTrainingData", _TrainingData, merge_keys={"trainingData": "dataset"}
)


class _EvaluationData(TypedDict):
    """The evaluation data of the model. MLflow: dataset inputs of evaluation contexts."""

    evaluationData: Annotated[
        list[_BaseData], Edge("EvaluatedOn", "dataset", at="dataset", ours=True)
    ]


ML_MODEL_EVALUATION_DATA: Final = aspect(
    "mlModelEvaluationData", _EvaluationData, merge_keys={"evaluationData": "dataset"}
)
