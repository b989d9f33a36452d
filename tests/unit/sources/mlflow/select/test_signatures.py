"""Feature tables of signatures come before the first record that links to them, once."""

import json
from typing import Any

import pytest

from mlcat_ingest.errors import SourceUnavailableError
from mlcat_ingest.sources.base import ReadRequest, Remainder, Unlisted
from mlcat_ingest.sources.mlflow.read.reader import FileLocation
from mlcat_ingest.sources.mlflow.values.joined import JoinedSignature
from mlcat_ingest.sources.mlflow.values.records import LoggedModel, ModelOutput, Run
from support.fake_mlflow import FakeReader, FakeStore, a_source, read_all, shown
from support.mlflow_records import a_run, an_experiment
from support.reading import ALL

ON = {"features": {"from_signature": True}}


def trained(run_id: str, *columns: str, **more: Any) -> Run:
    """Return a run that logged a model with these inputs, as MLflow 2 does."""
    inputs = json.dumps([{"name": name, "type": "double"} for name in columns])
    entry = {"artifact_path": "net", "flavors": {}, "signature": {"inputs": inputs}}
    return a_run(run_id, tags={"mlflow.log-model.history": json.dumps([entry])}, **more)


def a_reader(*runs: Run, **more: Any) -> FakeReader:
    return FakeReader({"default": FakeStore([an_experiment()], list(runs), **more)})


RUNS = (trained("r1", "a"), a_run("r2"), trained("r3", "a"), trained("r4", "b"))


@pytest.mark.parametrize(
    ("config", "signatures"),
    [
        (ON, {"r1", "r4"}),
        ({}, set()),
        ({"features": {"from_signature": True, "enabled": False}}, set()),
    ],
    ids=["on", "default", "links switched off"],
)
def test_each_table_comes_once_before_the_run_that_links_to_it(
    config: dict[str, Any], signatures: set[str]
) -> None:
    expected: list[str] = []
    for run in RUNS:
        expected += ["signature of fraud/net"] * (run.run_id in signatures) + [f"run {run.run_id}"]
    found = read_all(a_source(a_reader(*RUNS), **config))
    assert list(map(shown, found)) == ["experiment fraud", *expected]


@pytest.mark.parametrize(("scope", "is_listed"), [(ALL, False), (ReadRequest(Remainder()), True)])
def test_the_table_of_a_run_that_is_only_listed_is_listed_too(
    scope: ReadRequest, *, is_listed: bool
) -> None:
    found = read_all(a_source(a_reader(RUNS[0]), **ON), scope)
    assert [one.listed_only for one in found if isinstance(one, JoinedSignature)] == [is_listed]


class Unreadable(FakeReader):
    def text_of(self, place: FileLocation, path: str) -> str | None:
        raise SourceUnavailableError(f"no {path} of {place.id}")


TABLE = Unlisted(
    "urn:li:mlFeatureTable:(urn:li:dataPlatform:mlflow,signature:iris:0)",
    {"customProperties": {"mlflow.signature_of": "iris"}},
)


FILES = {"features": {"from_signature": True, "model_files": True}}


@pytest.mark.parametrize(
    ("kind", "config", "missing"),
    [
        (FakeReader, ON, 1),
        (FakeReader, {**ON, "runs": {"statuses": ["FINISHED"]}}, 0),
        (FakeReader, {**ON, "experiments": {"deny": ["other"]}}, 0),
        (Unreadable, FILES, 0),
    ],
    ids=["all", "of one status", "without an experiment", "without a file"],
)
def test_a_table_is_missing_only_if_every_signature_was_read(
    kind: type[FakeReader], config: dict[str, Any], missing: int
) -> None:
    store = FakeStore([an_experiment(), an_experiment("2", "other")])
    store.runs = [a_run("r", model_outputs=(ModelOutput("m-1"),))]
    store.models = [LoggedModel("m-1", "1", "net", "READY", "r", artifact_uri="s3://models")]
    source = a_source(kind({"default": store}), **config)
    read_all(source)
    assert len(list(source.missing("mlflow:0123456789ab:default", [TABLE]))) == missing
