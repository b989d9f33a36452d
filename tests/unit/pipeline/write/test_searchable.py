"""What a full pass lists and no search finds is written once more, with equal values."""

import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from mlcat_ingest.client.base import CatalogFacts, StoredAspect
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.pipeline.flow import Cancellation
from mlcat_ingest.pipeline.report.report import EntityCounts
from mlcat_ingest.pipeline.write import searchable
from mlcat_ingest.pipeline.write.searchable import PAUSES_S
from support.fakes import FakeSink, group_urn
from support.mlflow_history import Recipe, Server

LOST = group_urn("fraud")


class Searched(FakeSink):
    """A catalog whose search finds at once what it finds at all."""

    index: Literal["current", "behind"] = "current"

    @property
    def facts(self) -> CatalogFacts:
        enforces = True if self.checks_versions else None
        return replace(super().facts, index=self.index, enforces_conditions=enforces)


class Behind(Searched):
    """A catalog whose index may be behind, and whose entities were created `age_s` ago."""

    index = "behind"
    age_s = 0

    def _aspect(self, urn: str, name: str, value: Aspect) -> StoredAspect:
        aspect, created_ms = super()._aspect(urn, name, value), int(time.time() - self.age_s) * 1000
        return replace(aspect, stamp=f"1 {created_ms} run")


@pytest.mark.parametrize("refuse", [(), (LOST,)])
def test_what_is_written_once_more_counts_once_unless_it_is_refused(
    tmp_path: Path, refuse: Sequence[str]
) -> None:
    sink = Searched(place="fake://catalog")
    recipe = Recipe(Server(), f"sqlite:///{tmp_path}/state.db", sink)
    recipe.ingest()
    sink.not_indexed, sink.refuse = [LOST], refuse
    sink.writes.clear()
    report = recipe.report(full=True)
    assert report.notes["written_again"] == 1
    refused = len(refuse)
    counts = EntityCounts(2, unchanged=2 - refused, rejected=refused)
    assert report.entities["mlModelGroup"] == counts
    assert {one.entity_urn for batch in sink.writes for one in batch} == {LOST}
    assert report.changed_groups == 0
    assert report.exit_code == (4 if refuse else 0)
    assert refuse or report.proposals_sent == sum(map(len, sink.writes))


@pytest.mark.parametrize(("age_s", "written_again"), [(0, 0), (240, 0), (360, 1)])
def test_no_run_waits_for_what_was_created_recently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_s: int, written_again: int
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(Cancellation, "pause", lambda _, seconds: pauses.append(seconds))
    sink = Behind(place="fake://catalog")
    sink.age_s, sink.not_indexed = age_s, [LOST]
    report = Recipe(Server(), f"sqlite:///{tmp_path}/state.db", sink).report()
    assert report.notes.get("written_again", 0) == written_again
    assert pauses == list(PAUSES_S) * written_again


def test_what_a_person_adds_while_it_is_written_once_more_is_not_lost(tmp_path: Path) -> None:
    sink = Searched(place="fake://catalog", checks_versions=False)
    recipe = Recipe(Server(), f"sqlite:///{tmp_path}/state.db", sink)
    recipe.ingest()
    put_terms(sink, "a")
    sink.not_indexed = [LOST]
    edits = iter([("a", "b")])

    def edit(_: object) -> None:
        for names in edits:
            put_terms(sink, *names)

    sink.before_write = edit
    assert recipe.report(full=True).notes["written_again"] == 1
    assert sink.stored[LOST]["glossaryTerms"] == terms("a", "b")


def put_terms(sink: FakeSink, *names: str) -> None:
    sink.put(LOST, "glossaryTerms", terms(*names))


def terms(*names: str) -> Aspect:
    stamp = {"time": 0, "actor": "urn:li:corpuser:ann"}
    return {"terms": [{"urn": f"urn:li:glossaryTerm:{one}"} for one in names], "auditStamp": stamp}


def test_what_a_search_may_lack_is_read_by_key_and_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[set[str]] = []
    read_many = FakeSink.read_many

    def read(self: FakeSink, urns: Sequence[str], aspects: Collection[str]) -> Any:
        asked.append({*aspects})
        return read_many(self, urns, aspects)

    monkeypatch.setattr(FakeSink, "read_many", read)
    sink = Searched(place="fake://catalog")
    sink.not_indexed = [LOST]
    Recipe(Server(), f"sqlite:///{tmp_path}/state.db", sink).ingest()
    assert {"mlModelGroupKey", "status"} in asked


def test_batches_of_what_a_search_may_lack_are_read_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A distant catalog would take a round trip for each, one after the other."""
    both, read_many = threading.Barrier(2, timeout=30), FakeSink.read_many

    def read(self: FakeSink, urns: Sequence[str], aspects: Collection[str]) -> Any:
        if {*aspects} == {"mlModelGroupKey", "status"}:
            both.wait()
        return read_many(self, urns, aspects)

    sink = Searched(place="fake://catalog")
    recipe = Recipe(Server(), f"sqlite:///{tmp_path}/state.db", sink)
    recipe.ingest()
    sink.not_indexed = [*sink.stored]
    monkeypatch.setattr(FakeSink, "read_many", read)
    monkeypatch.setattr(searchable, "MAX_REQUEST_ITEMS", 1)
    assert recipe.report(full=True).notes["written_again"] == 1


def test_an_entity_of_others_whose_write_is_refused_is_none_that_a_search_lacks(
    tmp_path: Path,
) -> None:
    sink = Searched(place="fake://catalog")
    sink.put(LOST, "mlModelGroupProperties", {"name": "fraud", "description": "of another tool"})
    sink.refuse = [LOST]
    recipe = Recipe(Server(), f"sqlite:///{tmp_path}/state.db", sink)
    for _ in range(2):
        report = recipe.report(full=True)
        assert (report.rejected, report.exit_code) == (1, 4)
        assert "written_again" not in report.notes
