"""External models are read in every pass, bounded, and tell whose metrics a run holds."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mlcat_ingest.sources.base import ReadRequest, Remainder, Runs, Shards
from mlcat_ingest.sources.mlflow.read.reader import ALL_MODELS, ModelFilter
from mlcat_ingest.sources.mlflow.select import models as models_module
from mlcat_ingest.sources.mlflow.select.models import LoggedModels, RecentModels, of_one_run
from mlcat_ingest.sources.mlflow.values.joined import JoinedLoggedModel, JoinedRun, JoinedVersion
from mlcat_ingest.sources.mlflow.values.records import (
    EXTERNAL_TAG,
    LoggedModel,
    Metric,
    ModelOutput,
    ModelVersion,
    RegisteredModel,
    Run,
)
from support.fake_mlflow import FakeReader, FakeStore, a_source, entities_of, read_all, shown
from support.mlflow_records import a_run, an_experiment
from support.reading import records_of

HOUR_MS = 3_600_000
BEE = "be" * 16


def an_agent(name: str = "agent", made_ms: int = 1_000, **more: Any) -> LoggedModel:
    facts = {"tags": {EXTERNAL_TAG: "true"}, "created_at_ms": made_ms, **more}
    return LoggedModel(f"m-{name}", "1", name, "READY", **facts)


def measured(run_id: str = BEE, key: str = "score", **more: Any) -> LoggedModel:
    return an_agent(metrics=(Metric(key, 0.5, run_id=run_id),), **more)


def a_bee(**more: Any) -> Run:
    facts = {
        "name": "mysterious-bee-45",
        "start_time_ms": 2_000,
        "metrics": (Metric("score", 0.5),),
        "tags": {"mlflow.user": "ann"},
        **more,
    }
    return a_run(BEE, **facts)


def a_reader(models: list[LoggedModel], runs: list[Run] | None = None, **more: Any) -> FakeReader:
    store = FakeStore([an_experiment()], runs or [], models=models, **more)
    return FakeReader({"default": store})


def names_of(reader: FakeReader, request: ReadRequest | None = None, **config: Any) -> list[str]:
    records = read_all(a_source(reader, **config), *([request] if request else []))
    return [one.model.name for one in records if isinstance(one, JoinedLoggedModel)]


def test_models_without_a_run_and_those_with_the_tag_stand_for_themselves() -> None:
    inside = LoggedModel("m-2", "1", "in a run", "READY", "r1", tags={EXTERNAL_TAG: "true"})
    alone = LoggedModel("m-3", "1", "without a run", "READY")
    trained = LoggedModel("m-4", "1", "trained", "READY", "r1")
    run = a_run("r1", model_outputs=(ModelOutput("m-4"),))
    reader = a_reader([an_agent(), inside, alone, trained], [run])
    assert names_of(reader) == ["agent", "in a run", "without a run"]
    assert sum("logged" in name for _, name in reader.calls) == 1


def test_an_external_model_follows_its_group() -> None:
    found = [shown(one) for one in read_all(a_source(a_reader([an_agent()])))]
    assert found == ["experiment fraud", "logged model agent"]


def test_filters_of_runs_hold_for_external_models_too() -> None:
    models = [an_agent("old", 1_000), an_agent("new", 1_767_225_600_000)]
    assert names_of(a_reader(models), runs={"since": "2026-01-01T00:00Z"}) == ["new"]
    assert names_of(a_reader(models), runs={"select": "with_model"}) == ["old", "new"]
    assert names_of(a_reader(models), runs={"statuses": ["FAILED"]}) == ["old", "new"]
    versions = [ModelVersion("m", "1", model_id="m-old")]
    registry: dict[str, Any] = {"registered": [RegisteredModel("m")], "versions": versions}
    assert names_of(a_reader(models, **registry), runs={"select": "registered"}) == ["old"]
    assert names_of(a_reader(models), experiments={"deny": [".*"]}) == []
    undated = a_reader([replace(models[0], created_at_ms=None)])
    assert names_of(undated, runs={"since": "1970-01-01T00:00Z"}) == ["old"]
    assert names_of(undated, runs={"since": "1970-01-01T00:00:01Z"}) == []


def test_a_version_has_the_parameters_of_the_external_model_it_names() -> None:
    versions = [ModelVersion("m", "1", model_id="m-agent")]
    reader = a_reader(
        [an_agent(params={"llm": "small"})], registered=[RegisteredModel("m")], versions=versions
    )
    records = read_all(a_source(reader))
    [version] = [one for one in records if isinstance(one, JoinedVersion)]
    assert version.model is not None
    assert version.model.params == {"llm": "small"}


def test_with_a_limit_as_many_of_the_newest_are_read() -> None:
    models = [an_agent(str(n), n) for n in range(9)]
    reader = a_reader(models, [a_run(f"r{n}") for n in range(9)])
    assert names_of(reader, limit=3) == ["8", "7", "6"]


def test_external_models_come_with_the_rest_and_in_no_shard() -> None:
    reader = a_reader([an_agent()], [a_run("r1")])
    keys = [one.key for one in a_source(reader).shards()]
    assert names_of(reader, ReadRequest(Shards(keys))) == []
    assert names_of(reader, ReadRequest(Remainder())) == ["agent"]


def run_names(reader: FakeReader, request: ReadRequest | None = None, **config: Any) -> list[str]:
    entities = entities_of(a_source(reader, **config), *([request] if request else []))
    found = [one.aspects.get("mlModelProperties", {}) for one in entities.values()]
    return [one["name"] for one in found if "mlflow.run_id" in one.get("customProperties", {})]


BY_NAME = ["metrics of agent (mysterious-bee-45)"]


@pytest.mark.parametrize("scope", ["all", "limit", "shard", "ids"])
def test_a_run_that_mlflow_started_for_metrics_is_called_after_their_model(scope: str) -> None:
    reader = a_reader([measured()], [a_bee()])
    keys = [one.key for one in a_source(reader).shards()]
    request = {"shard": ReadRequest(Shards(keys)), "ids": ReadRequest(Runs([BEE]))}.get(scope)
    config = {"limit": 5} if scope == "limit" else {}
    assert run_names(reader, request, **config) == BY_NAME


def test_a_run_behind_a_version_keeps_its_name() -> None:
    registry: dict[str, Any] = {
        "registered": [RegisteredModel("m")],
        "versions": [ModelVersion("m", "1", run_id=BEE)],
    }
    assert "mysterious-bee-45" in run_names(a_reader([measured()], [a_bee()], **registry))


@pytest.mark.parametrize(
    ("start_ms", "logged_ms"), [(2_000, 500 * HOUR_MS), (500 * HOUR_MS, 1), (500 * HOUR_MS, None)]
)
def test_a_run_holds_the_metrics_of_a_model_that_was_made_long_after_others(
    start_ms: int, logged_ms: int | None
) -> None:
    between = [an_agent(str(n), 100 * n * HOUR_MS) for n in range(1, 5)]
    models = [*between, measured(made_ms=499 * HOUR_MS)]
    bee = a_bee(start_time_ms=start_ms, metrics=(Metric("score", 0.5, logged_ms),))
    assert run_names(a_reader(models, [bee])) == BY_NAME


def test_what_waits_while_a_long_run_of_metrics_is_looked_at_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(models_module, "HELD_MODELS", 10)
    made = [LoggedModel(f"m-{n}", "1", "x", "READY", f"r{n}", created_at_ms=n) for n in range(99)]
    runs = [a_run(f"r{n}", model_outputs=(ModelOutput(f"m-{n}"),)) for n in range(99)]
    reader = a_reader(made, [a_bee(metrics=(Metric("score", 0.5, 500 * HOUR_MS),)), *runs])
    records = (one for one in records_of(a_source(reader)) if isinstance(one, JoinedRun))
    assert next(records).run_id == BEE
    assert reader.pages["logged_models 1"] == 6
    assert all(one.models for one in records)


def test_models_of_the_page_do_not_count_as_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models_module, "HELD_MODELS", 2)
    pages = iter([TRAINED[:2], [measured()]])
    models = LoggedModels(lambda _: pages, lambda _: True, keeps_external=True)
    models.load([MAKER, a_bee()])
    assert [one.name for one in models.measured_by(a_bee())] == ["agent"]


def test_the_listing_is_read_no_further_than_the_last_metric_of_a_run() -> None:
    together = [measured(), an_agent("made at once")]
    models = [*together, *(an_agent(str(n), n * 24 * HOUR_MS) for n in range(1, 50))]
    reader = a_reader(models, [a_bee()])
    run = next(one for one in records_of(a_source(reader)) if isinstance(one, JoinedRun))
    assert [one.name for one in run.measures] == ["agent"]
    assert reader.pages["logged_models 1"] == 2


@pytest.mark.parametrize(("after_ms", "pages"), [(0, 2), (1, 1)])
def test_clocks_differ_by_an_hour_at_most_where_models_of_metrics_are_looked_for(
    after_ms: int, pages: int
) -> None:
    metric = Metric("score", 0.5, 50 * HOUR_MS)
    models = [an_agent(str(n), 51 * HOUR_MS + after_ms + n) for n in range(9)]
    reader = replace(a_reader(models, [a_bee(metrics=(metric,))]), page=1)
    next(one for one in records_of(a_source(reader)) if isinstance(one, JoinedRun))
    assert reader.pages["logged_models 1"] == pages


@pytest.mark.parametrize(("after_ms", "pages"), [(0, 2), (1, 1)])
def test_a_model_is_looked_for_until_a_day_after_the_end_of_its_run(
    after_ms: int, pages: int
) -> None:
    run = a_run("r", end_time_ms=10 * HOUR_MS, model_outputs=(ModelOutput("m-gone"),))
    models = [an_agent(str(n), 34 * HOUR_MS + after_ms + n) for n in range(9)]
    reader = replace(a_reader(models, [run]), page=1)
    next(one for one in records_of(a_source(reader)) if isinstance(one, JoinedRun))
    assert reader.pages["logged_models 1"] == pages + 1, "the last asks for its id"


SINCE_MS = 1_767_225_600_000


@pytest.mark.parametrize(
    ("made_ms", "named", "listings"),
    [(SINCE_MS, "", 1), (SINCE_MS - 1, "", 2), (None, "", 2), (SINCE_MS - 1, "m", 1)],
)
def test_models_made_before_the_since_of_runs_are_not_held_but_asked_for(
    made_ms: int | None, named: str, listings: int
) -> None:
    model = LoggedModel("m-1", "1", "net", "READY", "r1", created_at_ms=made_ms)
    run = a_run("r1", start_time_ms=SINCE_MS, model_outputs=(ModelOutput("m-1"),))
    versions = [ModelVersion(name, "1", model_id="m-1") for name in named]
    reader = a_reader([model], [run], versions=versions)
    records = read_all(a_source(reader, runs={"since": "2026-01-01"}))
    assert [list(one.models) for one in records if isinstance(one, JoinedRun)] == [["m-1"]]
    assert [name for _, name in reader.calls].count("logged_models 1") == listings


def test_a_version_without_a_logged_model_needs_no_listing_of_them() -> None:
    registry: dict[str, Any] = {
        "registered": [RegisteredModel("m")],
        "versions": [ModelVersion("m", "1", "r1")],
    }
    runs = [a_run("r0"), a_run("r1")]
    reader = a_reader([an_agent(str(n)) for n in range(9)], runs, **registry)
    version = next(one for one in records_of(a_source(reader)) if isinstance(one, JoinedVersion))
    assert version.run is not None
    assert reader.pages["logged_models 1"] == 0


@pytest.mark.parametrize(
    ("model", "listings"),
    [
        (LoggedModel("m-1", "1", "net", "READY", BEE), 1),
        (LoggedModel("m-1", "1", "net", "READY", BEE, metrics=(Metric("f1", 0.5),)), 2),
        (measured(source_run_id=BEE, name="1"), 1),
    ],
    ids=["without metrics", "with metrics", "external"],
)
def test_only_where_metrics_may_be_copies_other_models_of_the_run_are_asked_for(
    model: LoggedModel, listings: int
) -> None:
    registry: dict[str, Any] = {
        "registered": [RegisteredModel("m")],
        "versions": [ModelVersion("m", "1", model_id="m-1")],
    }
    reader = a_reader([model], [a_run(BEE)], **registry)
    records = read_all(a_source(reader), ReadRequest(Runs([], ["m"])))
    [version] = [one for one in records if isinstance(one, JoinedVersion)]
    assert version.model == model
    assert [name for _, name in reader.calls].count("logged_models 1") == listings


def models_of(*listed: LoggedModel) -> LoggedModels:
    return LoggedModels(
        lambda _: iter([listed]), lambda one: not one.is_external, keeps_external=True
    )


TRAINED = [LoggedModel(f"m-{n}", "1", "net", "READY", "r", created_at_ms=n) for n in range(3)]
MAKER = a_run("r", model_outputs=(ModelOutput("m-0"), ModelOutput("m-1")))


def test_models_are_forgotten_with_the_page_after_that_of_their_run() -> None:
    models = models_of(*TRAINED)
    models.load([MAKER])
    assert list(models.of(MAKER)) == ["m-0", "m-1"]
    models.load([])
    found = [models.find(f"m-{n}") for n in range(3)]
    assert [one is not None for one in found] == [False, False, True]
    found_by_id = {ALL_MODELS: [], ModelFilter(model_ids=("m-0",)): TRAINED}
    models = LoggedModels(lambda only: iter([found_by_id[only]]), bool, keeps_external=True)
    models.load_named(["m-0"])
    assert models.find("m-0")
    models.load([])
    assert not models.find("m-0"), "nor is what was asked for by its id"


def test_a_version_has_its_model_though_another_run_made_it_and_is_on_an_earlier_page() -> None:
    runs = [a_run("r1", model_outputs=(ModelOutput("m-1"),)), a_run("r2")]
    model = LoggedModel("m-1", "1", "net", "READY", "r1")
    versions = [ModelVersion("net", str(at), f"r{at}", model_id="m-1") for at in (2, 3)]
    reader = a_reader([model], runs, registered=[RegisteredModel("net")], versions=versions)
    reader.page = 1
    found = [one for one in read_all(a_source(reader)) if isinstance(one, JoinedVersion)]
    assert [(one.version.version, one.model) for one in found] == [("2", model), ("3", model)]


@pytest.mark.parametrize(("hours", "room", "held"), [(24, 99, 3), (0, 3, 4)])
def test_no_more_than_a_day_and_no_more_than_there_is_room_for_is_held_for_a_run_without_end(
    hours: int, room: int, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models_module, "HELD_MODELS", room)
    made = [replace(TRAINED[0], model_id=f"m-{n}") for n in range(9)]
    pages = ([replace(one, created_at_ms=n * hours * HOUR_MS)] for n, one in enumerate(made))
    listings = {ALL_MODELS: pages, ModelFilter(model_ids=("m-8",)): iter([made[8:]])}
    models = LoggedModels(listings.__getitem__, lambda _: True, keeps_external=True)
    models.load([a_run("r", status="RUNNING", model_outputs=(ModelOutput("m-8"),))])
    assert [*models._waiting] == [*(f"m-{n}" for n in range(held)), "m-8"]


def test_only_named_models_are_kept_of_the_rest_of_the_listing() -> None:
    agent = measured()
    models = models_of(*TRAINED, agent)
    assert len(list(models.read_rest({"m-1", agent.model_id}))) == 1
    found = [models.find(one) for one in ("m-0", "m-1", agent.model_id)]
    assert [one is not None for one in found] == [False, True, False]
    assert models.measured_by(a_bee()) == (), "no run comes any more"
    models.add_external([measured(name="late")])
    assert models.measured_by(a_bee()) == ()


def test_the_newest_external_models_are_listed_once_for_all_runs_of_metrics() -> None:
    runs = [replace(a_bee(), run_id=f"bee{n}") for n in range(9)]
    models = [measured(f"bee{n}", name=str(n)) for n in range(9)]
    reader = a_reader(models, runs)
    records = read_all(a_source(reader), ReadRequest(Runs([one.run_id for one in runs])))
    assert all(one.measures for one in records if isinstance(one, JoinedRun))
    assert [name for _, name in reader.calls].count("logged_models 1") == 1


def test_models_of_runs_that_made_some_are_asked_for_and_dropped_with_the_next_page() -> None:
    asked: list[ModelFilter] = []

    def listed(only: ModelFilter) -> Iterator[list[LoggedModel]]:
        asked.append(only)
        yield TRAINED

    models = RecentModels(listed, keeps_external=True)
    models.load([MAKER, a_run("p"), a_run("q", model_outputs=(ModelOutput("m-gone"),))])
    assert asked == [ModelFilter(run_ids=("r", "q")), ModelFilter(model_ids=("m-gone",))]
    assert models.find("m-1") == TRAINED[1]
    models.load([a_run("other")])
    assert (models.find("m-1"), len(asked)) == (None, 2)


def test_models_that_nothing_awaits_are_not_held() -> None:
    pages = [[an_agent(str(n), n) for n in range(at, at + 2)] for at in range(0, 10, 2)]
    models = LoggedModels(
        lambda _: iter(pages), lambda one: not one.is_external, keeps_external=True
    )
    assert len(list(models.read_rest(()))) == 5
    assert models._waiting == {}
    assert len(models.take_external()) == 10
    assert models.take_external() == []


# --- whose metrics a run holds -------------------------------------------------------------------


def external(*models: LoggedModel, keeps: bool = True) -> RecentModels:
    found = RecentModels(lambda _: iter(()), keeps_external=keeps)
    found.add_external(models)
    return found


def measured_names(found: RecentModels, run: Run) -> list[str]:
    return [one.name for one in found.measured_by(run)]


def test_a_run_of_metrics_holds_those_of_all_models_that_name_it() -> None:
    found = external(measured(name="b"), measured(key="loss", name="a"))
    run = a_bee(metrics=(Metric("score", 0.5), Metric("loss", 0.1)))
    assert measured_names(found, run) == ["a", "b"]
    assert found.measured_by(run) == (), "a run comes once"


def test_a_run_with_a_metric_of_no_model_is_a_run_of_its_own() -> None:
    run = a_bee(metrics=(Metric("score", 0.5), Metric("loss", 0.1)))
    assert external(measured()).measured_by(run) == ()


def test_a_run_that_no_model_names_and_one_of_another_experiment_hold_no_metrics_of_models() -> (
    None
):
    assert external().measured_by(a_bee()) == ()
    other = replace(measured(), model_id="m-2", experiment_id="77")
    assert external(other).measured_by(a_bee()) == ()


@pytest.mark.parametrize(
    "more",
    [
        {"params": {"depth": "3"}},
        {"tags": {"mlflow.user": "ann", "team": "risk"}},
        {"tags": {"mlflow.note.content": "words"}},
        {"model_outputs": (ModelOutput("m-9"),)},
        {"metrics": ()},
    ],
    ids=["a parameter", "a tag", "a note", "a model", "no metric"],
)
def test_a_run_with_more_than_metrics_is_a_run_of_its_own(more: dict[str, Any]) -> None:
    found = external(measured())
    assert found.measured_by(a_bee(**more)) == ()


def test_models_are_taken_once_and_only_where_they_are_kept() -> None:
    found = external(an_agent(), LoggedModel("m-2", "1", "trained", "READY", "r1"))
    assert [one.name for one in found.take_external()] == ["agent"]
    assert found.take_external() == []
    unkept = external(measured(), keeps=False)
    assert unkept.take_external() == []
    assert measured_names(unkept, a_bee()) == ["agent"]


def test_a_metric_stays_with_the_model_that_was_logged_first_in_a_run() -> None:
    # By a clock that is ahead of the server's.
    own, copied = Metric("acc", 0.9, 900, 0, run_id="r"), Metric("f1", 0.5, 6, 0, run_id="r")
    of_both = Metric("late", 0.7, 1_009, 0, run_id="r")
    facts: dict[str, Any] = {"source_run_id": "r", "status": "READY", "experiment_id": "1"}
    facts["last_updated_at_ms"] = 5_000
    first = LoggedModel("m-1", name="a", created_at_ms=7, metrics=(own, copied, of_both), **facts)
    same = (own, copied._replace(dataset_name="d"), Metric("f1", 0.5, 6, 1, run_id="r"), of_both)
    third = LoggedModel("m-3", name="c", created_at_ms=9, metrics=(own, of_both), **facts)
    second = LoggedModel("m-2", name="b", created_at_ms=8, metrics=same, **facts)
    found = of_one_run([third, second, first, second])
    assert found["m-1"] == first
    assert found["m-2"].metrics == same[2:]
    assert found["m-2"].copied == ("acc", "f1")
    assert (found["m-3"].metrics, found["m-3"].copied) == ((), ("acc", "late"))


def test_a_version_that_was_never_evaluated_has_no_metrics_of_its_neighbour() -> None:
    metric = Metric("acc", 0.9, 5, 0, run_id=BEE)
    models = [
        LoggedModel(
            f"m-{at}" + "0" * 31, "1", "net", "READY", BEE, created_at_ms=9 + at, metrics=(metric,)
        )
        for at in range(2)
    ]
    outputs = tuple(ModelOutput(model.model_id, 0) for model in models)
    versions = [
        ModelVersion("net", str(at), BEE, f"models:/{model.model_id}", model.model_id)
        for at, model in enumerate(models)
    ]
    registry: dict[str, Any] = {"registered": [RegisteredModel("net")], "versions": versions}
    run = a_run(BEE, metrics=(metric,), model_outputs=outputs)
    choices: list[dict[str, Any]] = [{}, {"runs": {"since": "2030-01-01"}}]
    for taken in choices:
        by_urn = entities_of(a_source(a_reader(models, [run], **registry), **taken))
        first, second = (
            by_urn[f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,net_{at},PROD)"] for at in (0, 1)
        )
        metrics = [
            [one["name"] for one in model.aspects["mlModelProperties"]["trainingMetrics"]]
            for model in (first, second)
        ]
        assert metrics == [["acc"], []], taken
        assert "model_metric_copied" in {note.kind for note in second.notes}


@pytest.mark.parametrize(
    ("step", "created_ms", "more", "wanted"),
    [
        pytest.param(0, 40, (), {"acc": "0.9", "f1": "0.7", "lr": "0.1"}, id="after_training"),
        pytest.param(0, 25, (), {"acc": "0.5", "f1": "0.7", "lr": "0.1"}, id="in_training"),
        pytest.param(1, 40, (), {"acc": "0.5", "lr": "0.1"}, id="at_a_step"),
        pytest.param(
            0,
            40,
            (Metric("acc", 0.8, 50, 0, run_id=BEE), Metric("f1", 0.6, 50, 0, run_id="e")),
            {"acc": "0.8", "f1": "0.6", "lr": "0.1"},
            id="evaluated",
        ),
    ],
)
def test_a_version_has_what_its_run_had_measured_when_the_model_was_logged(
    step: int, created_ms: int, more: tuple[Metric, ...], wanted: dict[str, str]
) -> None:
    copied = (Metric("acc", 0.5, 10, 0, run_id=BEE), Metric("lr", 0.1, 10, 0, run_id=BEE))
    last = (
        *(Metric("acc", 0.9, 30, 2), Metric("f1", 0.7, 20, 1), copied[1]._replace(run_id=None)),
        Metric("of_another", 0.8, 20, 1, "m-of-another"),
    )
    model_id = "m-" + "1" * 32
    facts: dict[str, Any] = {"created_at_ms": created_ms, "metrics": (*copied, *more)}
    model = LoggedModel(model_id, "1", "net", "READY", BEE, **facts)
    run = a_run(BEE, metrics=last, model_outputs=(ModelOutput(model_id, step),))
    version = ModelVersion("net", "1", BEE, f"models:/{model_id}", model_id)
    reader = a_reader([model], [run], registered=[RegisteredModel("net")], versions=[version])
    found = entities_of(a_source(reader))["urn:li:mlModel:(urn:li:dataPlatform:mlflow,net_1,PROD)"]
    metrics = found.aspects["mlModelProperties"]["trainingMetrics"]
    assert {one["name"]: one["value"] for one in metrics} == wanted


@pytest.mark.parametrize(("names", "wanted"), [(("net", "tree"), ["f1"]), (("tree", "tree"), [])])
def test_the_source_of_a_version_names_a_model_of_its_run(
    names: tuple[str, str], wanted: list[str]
) -> None:
    metrics = [(Metric(key, 0.9, 5, 0, run_id=BEE),) for key in ("acc", "f1")]
    models = [
        LoggedModel(f"m-{at}" + "0" * 31, "1", name, "READY", BEE, created_at_ms=7, metrics=of)
        for at, (name, of) in enumerate(zip(names, metrics, strict=True))
    ]
    run = a_run(BEE, model_outputs=tuple(ModelOutput(model.model_id, 0) for model in models))
    version = ModelVersion("net", "1", BEE, f"runs:/{BEE}/tree")
    reader = a_reader(models, [run], registered=[RegisteredModel("net")], versions=[version])
    found = entities_of(a_source(reader))["urn:li:mlModel:(urn:li:dataPlatform:mlflow,net_1,PROD)"]
    properties = found.aspects["mlModelProperties"]
    assert [one["name"] for one in properties["trainingMetrics"]] == wanted
    assert ("mlflow.model_id" in properties["customProperties"]) is bool(wanted)
    assert ("model_of_version_unknown" in {note.kind for note in found.notes}) is not bool(wanted)
