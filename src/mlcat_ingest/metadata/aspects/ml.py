"""Aspects of models, model groups, features, feature tables, primary keys and deployments.

Source: `com.linkedin.ml.metadata.*` of DataHub's metadata model.
"""

from typing import Final, Literal, TypeAlias

from mlcat_ingest.metadata.aspects.declaration import aspect

MLFeatureDataType: TypeAlias = Literal[
    "USELESS", "NOMINAL", "ORDINAL", "BINARY", "COUNT", "TIME", "INTERVAL", "IMAGE", "VIDEO",
    "AUDIO", "TEXT", "MAP", "SEQUENCE", "SET", "CONTINUOUS", "BYTE", "UNKNOWN",
]  # fmt: skip
"""The kind of a feature's values; a list of anything is a SEQUENCE."""

ML_MODEL_PROPERTIES: Final = aspect(
    "mlModelProperties",
    merge_keys={"hyperParams": "name", "trainingMetrics": "name", "onlineMetrics": "name"},
)
"""The properties of a model: the outcome of one training run."""

ML_MODEL_GROUP_PROPERTIES: Final = aspect("mlModelGroupProperties")
"""The properties of a group: the container of all runs of one model."""

ML_FEATURE_PROPERTIES: Final = aspect("mlFeatureProperties")
"""The properties of a feature; its name is in its URN."""

ML_FEATURE_TABLE_PROPERTIES: Final = aspect("mlFeatureTableProperties")
"""The properties of a feature table: a feature view or feature group."""

aspect("mlFeatureTableKey")

ML_PRIMARY_KEY_PROPERTIES: Final = aspect("mlPrimaryKeyProperties")
"""The properties of a primary key: an entity that features are looked up by."""

ML_MODEL_DEPLOYMENT_PROPERTIES: Final = aspect("mlModelDeploymentProperties")
"""The properties of a deployment: an endpoint that serves models."""

SOURCE_CODE: Final = aspect("sourceCode", merge_keys={"sourceCode": "type sourceCodeUrl"})
"""The place of the code. MLflow: git repository and commit of the run."""

INTENDED_USE: Final = aspect("intendedUse")
"""The purpose and the users of the model, and the uses that it is not made for."""

ML_MODEL_FACTOR_PROMPTS: Final = aspect("mlModelFactorPrompts")
"""The factors that are foreseen, and those that results are reported for."""

ML_MODEL_ETHICAL_CONSIDERATIONS: Final = aspect("mlModelEthicalConsiderations")
"""Sensitive data, decisions about people, risks, and what is done about these."""

ML_MODEL_CAVEATS_AND_RECOMMENDATIONS: Final = aspect(
    "mlModelCaveatsAndRecommendations", yields=frozenset({"caveats", "recommendations"})
)
"""The limits of the model, where to use it, and what data to evaluate it on."""

ML_MODEL_TRAINING_DATA: Final = aspect(
    "mlModelTrainingData", merge_keys={"trainingData": "dataset"}
)
"""The training data of the model. MLflow: dataset inputs of training contexts."""

ML_MODEL_EVALUATION_DATA: Final = aspect(
    "mlModelEvaluationData", merge_keys={"evaluationData": "dataset"}
)
"""The evaluation data of the model. MLflow: dataset inputs of evaluation contexts."""
