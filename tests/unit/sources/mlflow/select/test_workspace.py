"""A pass over a few runs by their ids: these, what they belong to, and nothing else."""

from collections.abc import Sequence
from typing import Any

from mlcat_ingest.sources.base import Finished, Page, ReadRequest, Runs
from mlcat_ingest.sources.mlflow.read.reader import IDS_A_LISTING
from mlcat_ingest.sources.mlflow.values.joined import JoinedRecord, JoinedRun
from mlcat_ingest.sources.mlflow.values.records import ModelVersion, RegisteredModel
from support.fake_mlflow import FakeReader, FakeStore, a_source, shown
from support.mlflow_records import a_run, an_experiment


def a_store() -> FakeStore:
    return FakeStore(
        [an_experiment("1", "fraud"), an_experiment("2", "churn"), an_experiment("3", "other")],
        [a_run("r1", "1"), a_run("r2", "2"), a_run("r3", "1"), a_run("r4", "3")],
        [RegisteredModel("m"), RegisteredModel("n")],
        [ModelVersion("m", "1", run_id="r1"), ModelVersion("n", "2")],
    )


def read(reader: FakeReader, run_ids: Sequence[str], **config: Any) -> list[str]:
    source = a_source(reader, **config)
    found = list(source.read(ReadRequest(Runs(run_ids))))
    pages = [one for one in found if isinstance(one, Page)]
    assert {page.partition for page in pages} <= {None}, "nothing is remembered of the records"
    records = [one for page in pages for one in page.records]
    ends = [one for one in found if isinstance(one, Finished)]
    assert all(one.checkpoint is None and not one.complete for one in ends)
    assert {run_id for one in ends for run_id in one.found_ids} == {
        one.run_id for one in records if isinstance(one, JoinedRun)
    }
    return [_with_versions(one) for one in records]


def _with_versions(record: JoinedRecord) -> str:
    names = [v.name for v in record.versions] if isinstance(record, JoinedRun) else []
    return " of ".join([shown(record), *names])


def test_only_the_named_runs_are_read_with_what_they_belong_to() -> None:
    assert read(FakeReader({"default": a_store()}), ["r2", "r1", "unknown"]) == [
        "experiment fraud",
        "experiment churn",
        "registered m",
        "run r1 of m",
        "run r2",
        "version m 1",
    ]


def test_a_version_comes_without_the_others_of_its_model() -> None:
    store = a_store()
    store.versions += [ModelVersion("m", n, run_id=run) for n, run in (("2", "r3"), ("3", "r2"))]
    found = read(FakeReader({"default": store}), ["r3"])
    assert [one for one in found if one.startswith("version")] == ["version m 2"]


def test_every_workspace_is_asked() -> None:
    reader = FakeReader({"default": FakeStore(), "team": a_store()})
    assert read(reader, ["r3"]) == ["experiment fraud", "run r3"]


def test_the_recipes_filters_hold_but_for_its_limit() -> None:
    reader = FakeReader({"default": a_store()})
    config = {"experiments": {"deny": ["churn"]}, "limit": 1}
    assert "run r3" in read(reader, ["r1", "r2", "r3"], **config)
    assert not any("r2" in one for one in read(reader, ["r1", "r2"], **config))


def test_runs_are_asked_for_in_bulk() -> None:
    reader = FakeReader({"default": a_store()})
    read(reader, [f"r{n}" for n in range(3 * IDS_A_LISTING)])
    assert [name for _, name in reader.calls].count("runs") == 3
