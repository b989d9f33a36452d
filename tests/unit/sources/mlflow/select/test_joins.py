"""Versions are found by the run or the logged model that they were made from."""

import random
from typing import Any

import pytest

from mlcat_ingest.sources.mlflow.select.joins import VersionsByOrigin, with_origins
from mlcat_ingest.sources.mlflow.values.joined import JoinedVersion
from mlcat_ingest.sources.mlflow.values.records import (
    ModelOutput,
    ModelVersion,
    RegisteredModel,
    Run,
)
from support.fake_mlflow import FakeReader, FakeStore, a_source, read_all
from support.mlflow_records import a_run, a_scope, an_experiment

SCOPE = a_scope()


@pytest.mark.parametrize("seed", range(5))
def test_each_version_comes_once_with_its_run_where_there_is_one(seed: int) -> None:
    shuffled = random.Random(seed)
    runs = [a_run(f"r{n}") for n in range(40)]
    versions = [
        ModelVersion(f"m{n % 3}", str(n), run_id=shuffled.choice([f"r{n}", "gone", None]))
        for n in range(40)
    ]
    shuffled.shuffle(runs)
    models = [RegisteredModel(f"m{n}") for n in range(3)]
    reader = FakeReader({"default": FakeStore([an_experiment()], runs, models, versions)}, page=7)
    found = [one for one in read_all(a_source(reader)) if isinstance(one, JoinedVersion)]
    assert sorted(int(one.version.version) for one in found) == [*range(40)]
    assert all(
        (one.run is not None) == (one.version.run_id in {run.run_id for run in runs})
        for one in found
    )


# --- versions by their origin --------------------------------------------------------------------


def versions_by_origin() -> VersionsByOrigin:
    by_run = [ModelVersion("m", n, run_id="r1") for n in ("9", "10", "2")]
    by_model = ModelVersion("n", "1", model_id="m-1")
    by_source = ModelVersion("n", "2", model_id="m-2")
    uploaded = ModelVersion("n", "3", source="s3://bucket/m-3")
    return VersionsByOrigin([*by_run, by_model, by_source, uploaded])


def test_versions_are_found_by_their_run_once() -> None:
    versions = versions_by_origin()
    assert [one.version for one in versions.take(a_run("r1"))] == ["9", "10", "2"]
    assert versions.take(a_run("r1")) == ()
    assert not versions.by_run


def test_versions_are_found_by_the_models_that_their_run_made() -> None:
    versions = versions_by_origin()
    made = a_run("r1", model_outputs=(ModelOutput("m-2"), ModelOutput("m-3")))
    assert [one.version for one in versions.take(made)] == ["9", "10", "2", "2"]
    assert [one.version for one in versions.every()] == ["3", "1"]


@pytest.mark.parametrize(
    ("run", "has_versions"),
    [
        (a_run("r1"), True),
        (a_run("r1", model_outputs=(ModelOutput("m-9"),)), True),
        (a_run("r2", model_outputs=(ModelOutput("m-9"), ModelOutput("m-1"))), True),
        (a_run("r2", model_outputs=(ModelOutput("m-9"),)), False),
        (a_run("r2"), False),
    ],
    ids=["by its id", "by its id alone", "by its model", "by neither", "no model"],
)
def test_a_run_has_versions_before_and_after_they_are_taken(
    run: Run, *, has_versions: bool
) -> None:
    versions = versions_by_origin()
    assert versions.has(run) is has_versions
    assert bool(versions.take(run)) is has_versions
    assert versions.has(run) is has_versions


def test_a_run_without_versions_takes_none() -> None:
    assert versions_by_origin().take(a_run("r2")) == ()
    assert VersionsByOrigin().take(a_run("r2", model_outputs=(ModelOutput("m-1"),))) == ()


def test_the_newest_version_has_the_highest_number_and_not_the_last_place() -> None:
    assert versions_by_origin().newest == {"m": "10", "n": "3"}


def test_only_logged_models_are_named_by_versions() -> None:
    assert versions_by_origin().model_ids == {"m-1", "m-2"}


# --- copies ---------------------------------------------------------------------------------------


def version(name: str, at: int, source: str = "", run: str | None = "r", **more: Any) -> Any:
    return ModelVersion(name, "1", run, source or None, created_at_ms=at, **more)


def origins_of(*versions: ModelVersion) -> dict[str, list[str]]:
    return {v.name: [one.name for one in v.origins()] for v in with_origins(versions)}


def test_copies_of_copies_are_followed_to_the_logged_model() -> None:
    chain = [
        version("prod", 30, "models:/stage/1"),
        version("stage", 20, "models:/cand/1"),
        version("cand", 10, "models:/m-1", model_id="m-1", tags={"mlcat.features": "t:f"}),
    ]
    found = with_origins(chain)
    assert [one.name for one in found] == ["prod", "stage", "cand"]
    assert {one.model_id for one in found} == {"m-1"}
    assert [one.name for one in found[0].origins()] == ["prod", "stage", "cand"]


@pytest.mark.parametrize(
    "stranger",
    [
        version("cand", 99, model_id="m-2"),
        version("cand", 20, model_id="m-2"),
        version("cand", 10, model_id="m-2", run="other"),
        version("cand", 10, model_id="m-2", run=None),
        version("cand", 0, model_id="m-2"),
        ModelVersion("cand", "2", "r", created_at_ms=10),
    ],
    ids=["made later", "at once", "other run", "no run", "no time", "other number"],
)
def test_what_has_the_name_now_and_cannot_be_the_origin_is_none(stranger: ModelVersion) -> None:
    copy = version("prod", 20, "models:/cand/1")
    assert origins_of(copy, stranger)["prod"] == ["prod"]


def test_a_copy_of_a_known_logged_model_has_no_origin_of_another() -> None:
    copy = version("prod", 20, "models:/cand/1", model_id="m-1")
    assert origins_of(copy, version("cand", 10, model_id="m-2"))["prod"] == ["prod"]
    assert origins_of(copy, version("cand", 10, model_id="m-1"))["prod"] == ["prod", "cand"]


def test_an_origin_may_be_of_the_first_moment() -> None:
    assert origins_of(version("prod", 2, "models:/cand/1"), version("cand", 1))["prod"] == [
        *("prod", "cand")
    ]


def test_a_version_that_names_itself_or_a_circle_ends() -> None:
    assert origins_of(version("a", 10, "models:/a/1")) == {"a": ["a"]}
    circle = [version("a", 10, "models:/b/1"), version("b", 20, "models:/a/1")]
    assert origins_of(*circle) == {"a": ["a"], "b": ["b", "a"]}


@pytest.mark.parametrize("source", ["models:/cand@champion", "models:/cand/latest", "s3://b/c/1"])
def test_an_alias_and_a_stage_are_no_version(source: str) -> None:
    copy = version("prod", 20, source)
    assert origins_of(copy, version("cand", 10, model_id="m-1"))["prod"] == ["prod"]


def test_a_copy_without_a_run_has_that_of_its_origin_where_it_is_certain() -> None:
    named = version("cand", 10, "runs:/r/net")
    copy = version("prod", 20, "models:/cand/1", run=None)
    assert with_origins([named, copy])[1].run_id == "r"
    by_hand = version("prod", 20, "models:/cand/1", run=None, model_id="m-1")
    logged = version("cand", 10, model_id="m-1")
    assert with_origins([logged, by_hand])[1].run_id == "r"
    assert with_origins([logged, copy])[1].run_id is None
