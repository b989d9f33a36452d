"""The fields of the model card: aspects of a model that people write."""

from collections.abc import Mapping
from typing import Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.graphql.nodes import Node, Record
from mlcat_ingest.catalog.graphql.resolvers.common import (
    Fields,
    Resolver,
    aspect,
    objects,
    stored_as,
)


def _data(name: str, field: str) -> Resolver:
    """Return the resolver of the list of datasets that an aspect holds."""

    def resolve(node: Node, _info: GraphQLResolveInfo) -> list[Record] | None:
        value = node.aspect(name)
        if value is None:
            return None
        return [Record(node, item) for item in objects(value.get(field))]

    return resolve


def _address(field: str) -> Resolver:
    def resolve(record: Record, _info: GraphQLResolveInfo) -> Record | None:
        value = record.value.get(field)
        return None if value is None else Record(record.node, {"stringValue": value})

    return resolve


MODEL_CARD: Final[Mapping[str, Fields]] = {
    "MLModel": {
        "intendedUse": aspect("intendedUse"),
        "factorPrompts": aspect("mlModelFactorPrompts"),
        "metrics": aspect("mlModelMetrics"),
        "evaluationData": _data("mlModelEvaluationData", "evaluationData"),
        "trainingData": _data("mlModelTrainingData", "trainingData"),
        "quantitativeAnalyses": aspect("mlModelQuantitativeAnalyses"),
        "ethicalConsiderations": aspect("mlModelEthicalConsiderations"),
        "caveatsAndRecommendations": aspect("mlModelCaveatsAndRecommendations"),
        "sourceCode": aspect("sourceCode"),
        "cost": aspect("cost"),
    },
    "QuantitativeAnalyses": {
        "unitaryResults": _address("unitaryResults"),
        "intersectionalResults": _address("intersectionalResults"),
    },
    "Cost": {"costValue": stored_as("cost")},
}
"""The model card's fields of MLModel, and the records behind them."""
