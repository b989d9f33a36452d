"""Registered models that are asked for by their names, as the events of hooks do."""

from typing import Any

import pytest

from mlcat_ingest.sources.base import Finished, NamedGroup, ReadRequest, Runs
from mlcat_ingest.sources.mlflow.read.listing import name_filter
from mlcat_ingest.sources.mlflow.values.records import ModelVersion, RegisteredModel
from support.fake_mlflow import FakeReader, FakeStore, a_source, shown
from support.mlflow_records import a_run, an_experiment


def a_registry() -> FakeStore:
    return FakeStore(
        [an_experiment("1", "fraud"), an_experiment("2", "churn")],
        [a_run("r1", "1"), a_run("r2", "2")],
        [RegisteredModel("one"), RegisteredModel("two"), RegisteredModel("bare")],
        [
            ModelVersion("one", "1", run_id="r1"),
            ModelVersion("one", "2"),
            ModelVersion("two", "1", run_id="r2"),
        ],
    )


def read(named: Runs, **config: Any) -> tuple[list[str], list[NamedGroup]]:
    records: list[str] = []
    groups: list[NamedGroup] = []
    for page in a_source(FakeReader({"default": a_registry()}), **config).read(ReadRequest(named)):
        if isinstance(page, Finished):
            assert (page.checkpoint, page.complete) == (None, False)
            groups += page.groups
        else:
            records += map(shown, page.records)
    return records, groups


def test_a_named_model_comes_with_all_its_versions_and_no_run() -> None:
    records, [group] = read(Runs([], ["one"], ["one"]))
    assert records == ["registered one", "version one 1", "version one 2"]
    assert sorted(urn.rpartition("mlflow,")[2] for urn in group.listed) == [
        *("one_1,PROD)", "one_2,PROD)", "registered:one,PROD)")
    ]


def test_the_run_of_a_new_version_comes_too() -> None:
    records, groups = read(Runs(["r1"], ["one"]))
    assert groups == []
    assert records == [
        *("registered one", "experiment fraud", "run r1", "version one 1", "version one 2")
    ]


def test_a_model_that_does_not_exist_has_a_group_without_members() -> None:
    records, [group] = read(Runs([], ["gone"], ["gone"]))
    assert records == []
    assert "registered:gone" in group.urn
    assert group.listed == set()


def test_where_experiments_are_left_out_models_come_only_with_a_run_that_is_selected() -> None:
    chosen = {"experiments": {"allow": ["fraud"]}}
    names = ["one", "two", "bare"]
    records, groups = read(Runs([], names, names), **chosen)
    assert records == [
        *("experiment fraud", "registered one", "run r1", "version one 1", "version one 2")
    ]
    # What the recipe leaves out exists all the same.
    assert [len(group.listed) for group in groups] == [3, 2, 1]


@pytest.mark.parametrize(
    ("name", "condition"),
    [("a", "name='a'"), ("it's", 'name="it\'s"'), ("'\"", None)],
)
def test_a_name_is_quoted_in_filters(name: str, condition: str | None) -> None:
    assert name_filter(name) == condition
