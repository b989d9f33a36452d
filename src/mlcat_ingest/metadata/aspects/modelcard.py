"""Aspects of a model card: what a model is for, what it was judged by, what to beware of.

Source: `com.linkedin.ml.metadata.*` and `com.linkedin.common.Cost` of DataHub's metadata model.
All are free text that people write; this package reads and keeps them and writes none.
"""

from typing import Annotated, Final, Literal, TypedDict

from mlcat_ingest.metadata.aspects.declaration import aspect
from mlcat_ingest.metadata.aspects.markers import OneOf


class IntendedUse(TypedDict, total=False):
    """The intended use of a model: purposes, users, and uses that are out of scope."""

    primaryUses: list[str]
    primaryUsers: list[Literal["ENTERPRISE", "HOBBY", "ENTERTAINMENT"]]
    outOfScopeUses: list[str]


INTENDED_USE: Final = aspect("intendedUse", "ml.metadata.IntendedUse", IntendedUse, "mlModel")


class MLModelFactors(TypedDict, total=False):
    """Groups of people, instruments and surroundings that the model's quality depends on."""

    groups: list[str]
    instrumentation: list[str]
    environment: list[str]


class MLModelFactorPrompts(TypedDict, total=False):
    """Factors that matter, and those that the evaluation looked at."""

    relevantFactors: list[MLModelFactors]
    evaluationFactors: list[MLModelFactors]


ML_MODEL_FACTOR_PROMPTS: Final = aspect(
    "mlModelFactorPrompts", "ml.metadata.MLModelFactorPrompts", MLModelFactorPrompts, "mlModel"
)


class Metrics(TypedDict, total=False):
    """Measures that the model was judged by, and its decision thresholds."""

    performanceMeasures: list[str]
    decisionThreshold: list[str]


ML_MODEL_METRICS: Final = aspect("mlModelMetrics", "ml.metadata.Metrics", Metrics, "mlModel")


class ResultsType(TypedDict, total=False):
    """The address of results."""

    string: str


class QuantitativeAnalyses(TypedDict, total=False):
    """Results by single factor, and by several at once."""

    unitaryResults: Annotated[ResultsType, OneOf]
    intersectionalResults: Annotated[ResultsType, OneOf]


ML_MODEL_QUANTITATIVE_ANALYSES: Final = aspect(
    "mlModelQuantitativeAnalyses",
    "ml.metadata.QuantitativeAnalyses",
    QuantitativeAnalyses,
    "mlModel",
)


class EthicalConsiderations(TypedDict, total=False):
    """Sensitive data, risks, and what was done about them."""

    data: list[str]
    humanLife: list[str]
    mitigations: list[str]
    risksAndHarms: list[str]
    useCases: list[str]


ML_MODEL_ETHICAL_CONSIDERATIONS: Final = aspect(
    "mlModelEthicalConsiderations",
    "ml.metadata.EthicalConsiderations",
    EthicalConsiderations,
    "mlModel",
)


class CaveatDetails(TypedDict, total=False):
    """Caveats: gaps in the tests, and groups that the data do not represent."""

    needsFurtherTesting: bool
    caveatDescription: str
    groupsNotRepresented: list[str]


class CaveatsAndRecommendations(TypedDict, total=False):
    """Caveats, recommendations, and what data would be ideal for evaluation."""

    caveats: CaveatDetails
    recommendations: str
    idealDatasetCharacteristics: list[str]


ML_MODEL_CAVEATS_AND_RECOMMENDATIONS: Final = aspect(
    "mlModelCaveatsAndRecommendations",
    "ml.metadata.CaveatsAndRecommendations",
    CaveatsAndRecommendations,
    "mlModel",
)


class CostCost(TypedDict, total=False):
    """An amount (`costId`) or a code, of which there is exactly one."""

    costId: float
    costCode: str


class Cost(TypedDict):
    """The cost of the entity to its organisation."""

    costType: Literal["ORG_COST_TYPE"]
    cost: Annotated[CostCost, OneOf]


COST: Final = aspect("cost", "common.Cost", Cost, "mlModel")
