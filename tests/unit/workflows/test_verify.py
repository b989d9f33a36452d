"""What a verification says of the search of a catalog."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from mlcat_ingest.client.base import SourceEntities
from mlcat_ingest.errors import ProtocolMismatchError
from mlcat_ingest.metadata.proposal import Entity, Note
from mlcat_ingest.pipeline.write.searchable import PAUSES_S
from mlcat_ingest.workflows.verify import Verification, verify
from support.fakes import FakeSink, FakeSource, model_urn
from support.sides import resolved_recipe

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


def verification(
    sink: FakeSink, of_last: dict[str, Any] | None = None, notes: Sequence[Note] = ()
) -> Verification:
    home: dict[str, Any] = {"customProperties": {"mlcat.source": "fake:0"}}
    models = [Entity(urn, {"mlModelProperties": home}, notes=tuple(notes)) for urn in URNS[:1]]
    models += [Entity(urn, {"mlModelProperties": home}) for urn in URNS[1:2]]
    models += [Entity(urn, {"mlModelProperties": home} | (of_last or {})) for urn in URNS[2:]]
    for model in models:
        stored = home["customProperties"] | {"mlcat.applied.test": "2:"}
        sink.put(model.urn, "mlModelProperties", {"customProperties": stored})
    return verify(resolved_recipe("", sink, FakeSource([models])))


LAGS = len(PAUSES_S)


@pytest.mark.parametrize(
    ("lags", "code"),
    [
        ([[]], 0),
        ([URNS[:2], []], 0),
        ([URNS[:2], URNS[:2], URNS[:2], []], 0),
        ([*[URNS[:2]] * LAGS, URNS[:1]], 4),
        ([URNS[:2]] * (1 + LAGS), 4),
    ],
)
def test_an_index_that_lags_is_searched_for_a_minute(
    lags: list[list[str]], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    asked, lacking = len(lags), lags[-1]
    sink = LaggingSink(place="fake://catalog", lags=lags)
    with verification(sink) as found:
        summary, *rest = [line.text for line in found.lines(details=True)][not code :]
        numbers = f"{SUMMARY}, {len(lacking)} stored but not searchable now"
        assert (summary, found.exit_code) == (numbers, code)
        first = next(iter(found.lines())).text
        ok = "OK: 3 models and all their values are in the catalog."
        assert first == (summary if code else ok)
        cure = "a full pass (--full) writes them again, so that the search finds them"
        assert rest == [f"! not searchable now: {urn}" for urn in lacking] + [cure] * bool(code)
    assert pauses == list(PAUSES_S[: asked - 1])
    assert sink.writes == []


def test_what_was_written_a_moment_ago_is_on_its_way_into_the_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    sink = LaggingSink(place="fake://catalog", lags=[URNS[:2]] * (1 + LAGS))
    now_ms = int(time.time() * 1000)
    ages_s = dict(zip(URNS, (10, 3_600, 3_600), strict=True))
    written = {urn: f"1 {now_ms - age_s * 1000} run" for urn, age_s in ages_s.items()}
    monkeypatch.setattr(
        LaggingSink, "read_stamps", lambda _, urns, names: {u: {names[0]: written[u]} for u in urns}
    )
    with verification(sink) as found:
        [summary, *_] = [line.text for line in found.lines()]
        way = ", 1 on their way into the search index, 1 stored but not searchable now"
        assert summary == SUMMARY + way
        assert (found.exit_code, found.data()["index_is_behind"]) == (4, True)
        assert found.data()["not_searchable_urns"] == [URNS[1]]


def test_an_index_that_is_always_current_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = LaggingSink(place="fake://catalog", lags=[URNS[:1]])
    monkeypatch.setattr(LaggingSink, "facts", replace(sink.facts, index="current"))
    with verification(sink) as found:
        assert (found.exit_code, found.data()["not_searchable"]) == (4, 1)


def test_a_catalog_that_is_not_searched_says_so() -> None:
    sink = FakeSink(place="fake://catalog", search_error=ProtocolMismatchError("no search"))
    with verification(sink) as found:
        assert next(found.lines()).text.endswith(
            "not known, the catalog cannot be searched: no search"
        )
        assert (found.exit_code, found.data()["not_searchable"]) == (0, None)


def test_entities_that_are_removed_are_not_counted_as_there() -> None:
    sink = LaggingSink(place="fake://catalog", lags=[[]])
    sink.put(URNS[2], "status", {"removed": True})
    removed = {"status": {"removed": True}}
    with verification(sink, removed) as found:
        first = next(iter(found.lines())).text
        assert first == "OK: 2 models, 1 removed and all their values are in the catalog."
        assert found.compared == 3


@pytest.mark.parametrize(
    "kind", ["unlisted_kept", "workspaces_unread", "nothing_listed", "feature_file_unread"]
)
def test_the_summary_says_all_only_where_everything_was_read(kind: str) -> None:
    sink = LaggingSink(place="fake://catalog", lags=[[]])
    with verification(sink, notes=(Note(kind, "some could not be read"),)) as found:
        first, *rest = [line.text for line in found.lines()]
    assert first == (
        "OK: 3 models and their values are in the catalog, as far as they were listed and read."
    )
    assert rest[0] == f"  note         {kind}: 1"
    assert "some could not be read" in rest[1]
