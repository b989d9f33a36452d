"""Registered models that are asked for by their names, as the events of hooks do."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pytest

from mlcat_ingest.metadata.aliases import Sighting
from mlcat_ingest.sources.base import Finished, NamedGroup, ReadRequest, Runs
from mlcat_ingest.sources.mlflow.read.listing import name_filter
from mlcat_ingest.sources.mlflow.values.joined import JoinedRegisteredModel, JoinedVersion
from mlcat_ingest.sources.mlflow.values.records import ModelVersion, RegisteredModel
from support.fake_mlflow import FakeReader, FakeStore, a_source, read_all, shown
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


def test_the_move_of_an_alias_is_of_the_model_in_its_workspace() -> None:
    reader = FakeReader({"default": a_registry(), "team": a_registry()})
    move = Sighting("champion", "1", 1, 2, "event")
    records = read_all(
        a_source(reader), ReadRequest(Runs([], ["one"], [], {("team", "one"): [move]}))
    )
    of_model = [one for one in records if isinstance(one, JoinedRegisteredModel)]
    assert [move in one.sightings for one in of_model] == [False, True]


def test_a_named_model_comes_with_all_its_versions_and_no_run() -> None:
    records, [group] = read(Runs([], ["one"], ["one"]))
    assert records == ["registered one", "version one 2", "version one 1"]
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


def test_a_model_that_comes_only_with_runs_brings_its_versions_of_runs_that_are_left_out() -> None:
    store = a_registry()
    store.experiments.append(an_experiment("3", "other"))
    store.versions.append(ModelVersion("one", "3", run_id="gone"))
    source = a_source(FakeReader({"default": store}), experiments={"deny": ["other"]})
    records = read_all(source, ReadRequest(Runs([], ["one", "bare"])))
    assert list(map(shown, records)) == [
        *("experiment fraud", "registered one", "run r1", "version one 1", "version one 2"),
        "version one 3",
    ]


class Narrowed(FakeReader):
    """A reader that lists only the registered models that it was asked for, each call anew."""

    def narrow_registry(self, names: Sequence[str]) -> None:
        self.narrowings.append(list(names))

    @cached_property
    def narrowings(self) -> list[list[str]]:
        return []

    def registered_models(self) -> Iterator[list[RegisteredModel]]:
        for page in super().registered_models():
            yield [one for one in page if self._is_listed(one.name)]

    def model_versions(self) -> Iterator[list[ModelVersion]]:
        for page in super().model_versions():
            yield [one for one in page if self._is_listed(one.name)]

    def _is_listed(self, name: str) -> bool:
        return not self.narrowings or name in self.narrowings[-1]


@pytest.mark.parametrize(
    ("named", "config", "narrowings"),
    [
        (Runs([], ["one", "two"]), {}, [["one", "two"]]),
        (Runs(["r1"], ["one"]), {}, []),
        (Runs(["r1"]), {}, []),
        (Runs([], ["one"]), {"experiments": {"deny": ["churn"]}}, []),
    ],
    ids=["names", "names and a run", "a run", "names that come only with runs"],
)
def test_of_named_models_without_runs_nothing_else_is_listed(
    named: Runs, config: dict[str, Any], narrowings: list[list[str]]
) -> None:
    reader = Narrowed({"default": a_registry()})
    records = read_all(a_source(reader, **config), ReadRequest(named))
    assert reader.narrowings == narrowings
    names = {one.model.name for one in records if isinstance(one, JoinedRegisteredModel)}
    assert names == {*named.models, *(["one"] if named.ids else [])}


def test_the_versions_that_named_ones_are_copies_of_are_listed_generation_by_generation() -> None:
    chain = [
        ModelVersion(f"m{n:02}", "1", "r1", f"models:/m{n - 1:02}/1", created_at_ms=n)
        for n in range(1, 31)
    ]
    store = replace(a_registry(), versions=[*chain[-2:], ModelVersion("m00", "1", "r1")])
    reader = Narrowed({"default": store})
    read_all(a_source(reader), ReadRequest(Runs([], ["m30", "m29"])))
    assert reader.narrowings == [["m30", "m29"], ["m28"]], "the name of an origin may be gone"
    store.versions = chain
    reader = Narrowed({"default": store})
    records = read_all(a_source(reader), ReadRequest(Runs([], ["m30"])))
    [copy] = [one for one in records if isinstance(one, JoinedVersion)]
    generations = [f"m{n}" for n in range(30, 9, -1)]
    assert reader.narrowings == [[name] for name in generations]
    assert [one.name for one in copy.version.origins()] == generations


@pytest.mark.parametrize(
    ("name", "condition"),
    [("a", "name='a'"), ("it's", 'name="it\'s"'), ("'\"", None)],
)
def test_a_name_is_quoted_in_filters(name: str, condition: str | None) -> None:
    assert name_filter(name) == condition
