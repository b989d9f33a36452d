"""What a verification says of the search of a catalog."""

import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from mlcat_ingest.client.base import SourceEntities
from mlcat_ingest.errors import ProtocolMismatchError
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.workflows import verify as verify_module
from mlcat_ingest.workflows.resolve import ResolvedRecipe
from mlcat_ingest.workflows.verify import Verification, verify
from support.fakes import FakeSink, FakeSource, model_urn
from support.sides import Built

URNS = [model_urn(name) for name in "abc"]
SUMMARY = "3 entities compared, 0 missing, 0 stale, 0 to be removed"


@dataclass
class LaggingSink(FakeSink):
    """A catalog whose search lacks what the next of `lags` says, each time that it is listed."""

    lags: list[list[str]] = field(default_factory=list)

    def entities_of_source(
        self, entity_type: str, source: str | None, *, removed: bool = False
    ) -> SourceEntities:
        self.not_indexed = self.lags.pop(0)
        return super().entities_of_source(entity_type, source, removed=removed)


def verification(sink: FakeSink) -> Verification:
    home: dict[str, Any] = {"customProperties": {"mlcat.source": "fake:0"}}
    models = [Entity(urn, {"mlModelProperties": home}) for urn in URNS]
    for model in models:
        sink.put(model.urn, "mlModelProperties", home)
    recipe = Recipe.parse("{name: r, sources: [{type: mlflow}]}")
    sides = (Built(FakeSource([models])),), Built(sink)
    return verify(ResolvedRecipe(recipe, *sides))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lags", "code", "end"),
    [
        ([[]], 0, ", 0 stored but not searchable"),
        ([URNS[:2], []], 0, ", 0 stored but not searchable"),
        ([URNS[:2], URNS[:2]], 4, ", 2 stored but not searchable"),
        (
            *([URNS[:2], URNS[:1]], 0),
            "; stored but not searchable: not known, the index is behind: 2 of 3",
        ),
    ],
)
def test_an_index_that_lags_is_asked_twice(
    lags: list[list[str]], code: int, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    asked = len(lags)
    sink = LaggingSink(place="fake://catalog", lags=lags)
    with verification(sink) as found:
        is_ok = end == ", 0 stored but not searchable"
        summary, *rest = [line.text for line in found.lines(details=True)][is_ok:]
        assert (summary, found.exit_code) == (SUMMARY + end, code)
        first = next(iter(found.lines())).text
        ok = "OK: 3 models and all their values are in the catalog."
        assert first == (ok if is_ok else summary)
        assert rest == [f"! not searchable: {urn}" for urn in URNS[:2] if code]
    assert pauses == [verify_module.INDEX_PAUSE_S] * (asked - 1)
    assert sink.writes == []


def test_a_catalog_that_is_not_searched_says_so() -> None:
    sink = FakeSink(place="fake://catalog", search_error=ProtocolMismatchError("no search"))
    with verification(sink) as found:
        assert next(found.lines()).text.endswith(
            "not known, the catalog cannot be searched: no search"
        )
        assert (found.exit_code, found.data()["not_searchable"]) == (0, None)
