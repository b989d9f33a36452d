"""Sessions that copy or only look up the state of a recipe: the database stays as it is."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcat_ingest.errors import RecipeError, StateDamagedError, StateUnavailableError
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.outcome import Outcome
from mlcat_ingest.pipeline.state import partitions, records
from mlcat_ingest.pipeline.state.inspection import state_findings, summary
from mlcat_ingest.pipeline.state.locks import held_state
from mlcat_ingest.pipeline.state.opening import open_state
from mlcat_ingest.pipeline.state.partitions import Counts, PartitionKey, copy_recipe
from mlcat_ingest.pipeline.state.records import RecordRow
from mlcat_ingest.pipeline.state.session import StateOptions, StatePolicy, StateSession, names_of
from mlcat_ingest.sources.base import Partition
from mlcat_ingest.sql.database import Engine
from support.fakes import FakeSink

KEY = PartitionKey("r", "http://catalog", "mlflow:0123:default", "")
OTHER = PartitionKey("other", "http://catalog", "mlflow:0123:default", "")


def fill(url: str) -> None:
    engine = open_state(url)
    with engine.transaction(write=True) as connection:
        for key in (KEY, OTHER):
            partitions.begin(connection, key, "s", {"run": "urn:li:mlModel:x"})
            partitions.save_checkpoint(connection, key, {"since": 5}, 1_000, full=True)
            rows = (
                RecordRow(key.id, "run", f"{n}", "d", f"urn:{n}", "", "", "", 1)
                for n in range(2_500)
            )
            connection.execute_many(records.SAVE, [*rows])
    engine.dispose()


@pytest.fixture
def copy_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/copy.db"


@pytest.fixture
def copy(copy_url: str) -> Iterator[Engine]:
    engine = open_state(copy_url)
    yield engine
    engine.dispose()


def name_of(url: str) -> str:
    return re.escape(url.rpartition("/")[2])


def test_one_recipe_is_copied_whole(url: str, copy: Engine, copy_url: str) -> None:
    fill(url)
    before = summary(url, "r")
    copy_recipe(url, "r", copy)
    assert summary(copy_url, "r").parts == before.parts
    assert before.parts[0].records == {"run": 2_500}
    assert summary(copy_url, "other").parts == ()
    assert summary(url, "r") == before


def test_nothing_of_what_happens_to_the_copy_is_left(url: str) -> None:
    fill(url)
    before = summary(url, "r")
    state = StateSession(url, StateOptions("r"), StatePolicy.COPY)
    state.open(FakeSink(place="http://catalog"))
    entity = Entity("urn:li:mlModel:a", {})
    state.entities.settle([Outcome(MergedEntity(entity, {}, "updated"))], ())
    state.close()
    state.close()
    assert summary(url, "r") == before
    engine = open_state(url)
    with engine.transaction() as connection:
        assert partitions.counts(connection, KEY) == {"run": Counts(2_500, 0)}
    engine.dispose()


def test_a_newer_database_is_refused_and_an_older_one_not_taken_up(
    url: str, copy: Engine, copy_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(url)
    engine = open_state(url)
    with engine.transaction(write=True) as connection:
        connection.execute("INSERT INTO mlcat_migration VALUES ('state', 99, 'new', 1760000000000)")
    with pytest.raises(RecipeError, match=rf"{name_of(url)} was made by a newer version"):
        copy_recipe(url, "r", copy)
    (found,) = state_findings(url, "r")
    assert (found.what, found.outcome) == ("state database", "failed")
    assert "newer version" in found.detail
    with engine.transaction(write=True) as connection:
        connection.execute("DELETE FROM mlcat_migration")
    copy_recipe(url, "r", copy)
    assert "planning without it" in caplog.text
    assert summary(copy_url, "r").parts == ()
    with engine.transaction() as connection:
        assert connection.scalar("SELECT count(*) FROM mlcat_migration") == 0
    engine.dispose()


def place(urn: str) -> Partition:
    return Partition(KEY.source, "", {"run": urn}, "s")


def test_names_are_looked_up_beside_a_run_at_work(url: str) -> None:
    fill(url)
    before = summary(url, "r")
    with held_state(url, "r"):
        state = StateSession(None, names_of(url, StateOptions("r"), "http://catalog"))
        state.open(FakeSink(place="http://catalog"))
        assert state.partition(place("urn:li:mlModel:x")).checkpoint is None
        with pytest.raises(RecipeError, match=r"urn:li:mlModel:y instead of .*:x; its entities"):
            state.partition(place("urn:li:mlModel:y"))
        assert not state.remembers
        state.close()
    assert summary(url, "r") == before


def test_names_of_another_catalog_or_recipe_do_not_count(url: str) -> None:
    fill(url)
    for recipe, catalog in (("r", "http://elsewhere"), ("new", "http://catalog")):
        state = StateSession(None, names_of(url, StateOptions(recipe), catalog))
        state.open(FakeSink(place=catalog))
        assert state.partition(place("urn:li:mlModel:y")).checkpoint is None
        state.close()


def test_a_state_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/deep/state.db"
    assert names_of(url, StateOptions("r"), "http://catalog") == StateOptions("r")
    state = StateSession(url, StateOptions("r"), StatePolicy.COPY)
    state.open(FakeSink(place="http://catalog"))
    state.close()
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_or_unreachable_database_is_one_sentence(tmp_path: Path, copy: Engine) -> None:
    (tmp_path / "state.db").write_bytes(b"no database" * 999)
    with pytest.raises(StateDamagedError, match="is damaged"):
        copy_recipe(f"sqlite:///{tmp_path}/state.db", "r", copy)
    with pytest.raises(StateUnavailableError, match="cannot be used"):
        copy_recipe("postgresql://nobody@127.0.0.1:1/none", "r", copy)


def test_a_file_that_may_not_be_read_is_planned_without_as_a_run_goes_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    fill(url)
    monkeypatch.setattr(os, "access", lambda *_: False)
    state = StateSession(url, StateOptions("r"), StatePolicy.COPY)
    state.open(FakeSink(place="http://catalog"))
    assert state.remembers
    state.close()
    assert "planning: no state, so reading everything: " in caplog.text
