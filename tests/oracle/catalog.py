"""The catalog by GraphQL: entities by URN, and those of the MLflow platform that are live."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import requests

ENTITIES = """
query entities($urns: [String!]!, $names: [String!]) {
  entities(urns: $urns) { urn exists aspects(input: {aspectNames: $names}) { aspectName payload } }
}
"""
SCROLL = """
query live($input: ScrollAcrossEntitiesInput!) {
  scrollAcrossEntities(input: $input) { nextScrollId searchResults { entity { urn } } }
}
"""
ASPECTS = (
    *("mlModelProperties", "mlModelGroupProperties", "versionProperties", "status"),
    *("globalTags", "subTypes", "browsePathsV2"),
)


class Catalog:
    """A catalog that is asked by GraphQL."""

    def __init__(self, url: str) -> None:
        self._url = f"{url.rstrip('/')}/api/graphql"

    def entities(self, urns: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the aspects of those of `urns` that exist, removed ones too."""
        if not urns:
            return {}
        data = self._ask(ENTITIES, urns=list(urns), names=ASPECTS)
        return {
            one["urn"]: {each["aspectName"]: json.loads(each["payload"]) for each in one["aspects"]}
            for one in data["entities"]
            if one and one["exists"]
        }

    def live_entities(self, start: str) -> Iterator[str]:
        """Yield the models and groups of a source that a search finds; names begin with `start`."""
        wanted = {
            "types": ["MLMODEL", "MLMODEL_GROUP"],
            "query": "*",
            "count": 1_000,
            "orFilters": [
                {
                    "and": [
                        {
                            "field": "customProperties",
                            "condition": "START_WITH",
                            "values": ["mlcat.source="],
                        },
                        {
                            "field": "removed",
                            "condition": "EQUAL",
                            "values": ["true"],
                            "negated": True,
                        },
                    ]
                }
            ],
            "searchFlags": {"filterNonLatestVersions": False},
        }
        after = None
        while True:
            page = self._ask(SCROLL, input={**wanted, "scrollId": after})["scrollAcrossEntities"]
            for result in page["searchResults"]:
                urn = str(result["entity"]["urn"])
                if f"(urn:li:dataPlatform:mlflow,{start}" in urn:
                    yield urn
            after = page["nextScrollId"]
            if not after or not page["searchResults"]:
                return

    def _ask(self, query: str, **variables: Any) -> Mapping[str, Any]:
        body = {"query": query, "variables": variables}
        answer = requests.post(self._url, json=body, timeout=60).json()
        assert "errors" not in answer, answer["errors"]
        data: Mapping[str, Any] = answer["data"]
        return data
