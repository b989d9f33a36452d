"""The source over a reader without a server: order, filters, workspaces, deleted things."""

from dataclasses import replace
from typing import Any

import pytest

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.metadata.reserved import USES_TAG
from mlcat_ingest.sources.base import Finished, ReadRequest, Remainder, Runs, Shards, Source
from mlcat_ingest.sources.mlflow import source as source_module
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.source import MlflowSource
from mlcat_ingest.sources.mlflow.values.assets import SKILL, Asset
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedAgent,
    JoinedExperiment,
    JoinedRecord,
    JoinedRun,
    JoinedVersion,
    RefusedRecord,
)
from mlcat_ingest.sources.mlflow.values.records import (
    Experiment,
    LoggedModel,
    Metric,
    ModelOutput,
    ModelVersion,
    RegisteredModel,
    Run,
)
from support.fake_mlflow import FakeReader, FakeStore, a_source, entities_of, read_all, shown
from support.mlflow_records import a_run, an_experiment
from support.reading import pages_of, records_of

DAY_MS = 86_400_000


def read(store: FakeStore, **config: Any) -> list[str]:
    return [shown(each) for each in read_all(a_source(FakeReader({"default": store}), **config))]


def a_store() -> FakeStore:
    return FakeStore(
        [an_experiment("1", "fraud"), an_experiment("2", "churn")],
        [a_run("r1", "1"), a_run("r2", "2"), a_run("r3", "1")],
        [RegisteredModel("m"), RegisteredModel("n")],
        [
            ModelVersion("m", "1", run_id="r1"),
            ModelVersion("n", "1", run_id="gone"),
            ModelVersion("n", "2"),
            ModelVersion("n", "3", run_id="r2"),
        ],
    )


@pytest.mark.parametrize(
    ("stores", "config", "note"),
    [
        ({}, {}, "MLflow listed no workspace (MLflow omits"),
        ({"a": FakeStore()}, {"workspaces": {"deny": ["a"]}}, "none of 1 workspace matches"),
        ({"a": FakeStore()}, {}, "MLflow listed no experiment (MLflow omits"),
        ({"a": FakeStore(), "b": a_store()}, {}, "MLflow listed no experiment in workspace a ("),
        (
            {"a": a_store(), "b": a_store()},
            {"experiments": {"allow": ["chrun"]}},
            "none of 4 experiments matches `experiments`",
        ),
        ({"a": a_store()}, {"experiments": {"deny": [".*"]}}, "none of 2 experiments matches"),
    ],
)
def test_an_empty_listing_is_noted(
    stores: dict[str, FakeStore], config: dict[str, Any], note: str
) -> None:
    source = a_source(FakeReader(stores, workspace=next(iter(stores), "default")), **config)
    *_, last = source.read(ReadRequest())
    assert isinstance(last, Finished)
    assert [(one.kind, one.detail[: len(note)]) for one in last.notes] == [("nothing_listed", note)]


def test_groups_come_first_then_runs_with_their_versions_then_versions_without_a_run() -> None:
    assert read(a_store()) == [
        "experiment fraud",
        "experiment churn",
        "registered m",
        "registered n",
        "run r1",
        "run r2",
        "version m 1",
        "version n 3",
        "run r3",
        "version n 2",
        "version n 1",
    ]


def test_nothing_is_contacted_before_read() -> None:
    reader = FakeReader({"default": a_store()})
    source: Source[JoinedRecord] = a_source(reader)
    assert source.traffic.requests_made() == 0
    iterator = source.read(ReadRequest())
    assert reader.calls == []
    next(iterator)
    assert reader.calls == [("default", "experiments")]


def test_some_experiments_bring_the_registered_models_of_their_runs_with_all_versions() -> None:
    found = read(a_store(), experiments={"allow": ["fr"]})
    assert found == ["experiment fraud", "registered m", "run r1", "run r3", "version m 1"]
    store = a_store()
    store.versions.append(ModelVersion("m", "2", run_id="r2"))
    found = read(store, experiments={"allow": ["ch"]})
    assert found == [
        *("experiment churn", "registered n", "registered m", "run r2"),
        *("version n 3", "version m 2", "version n 2", "version m 1", "version n 1"),
    ]


def test_denied_experiments_are_not_asked_for() -> None:
    reader = FakeReader({"default": a_store()})
    found = read_all(a_source(reader, experiments={"deny": [".*"]}))
    assert found == []
    assert ("default", "runs") not in reader.calls


def test_versions_of_runs_that_filters_leave_unread_come_without_them() -> None:
    for runs in ({"statuses": ["FAILED"]}, {"since": "2026-01-01"}):
        records = read_all(a_source(FakeReader({"default": a_store()}), runs=runs))
        versions = [one for one in records if isinstance(one, JoinedVersion)]
        named = [f"{one.version.name} {one.version.version}" for one in versions]
        assert sorted(named) == ["m 1", "n 1", "n 2", "n 3"]
        assert all(one.run is None for one in versions)


def test_a_limit_of_runs_takes_their_versions_and_no_others() -> None:
    store = a_store()
    store.runs = [a_run("r2", "2"), a_run("r1", "1")]
    store.versions.append(ModelVersion("n", "4", run_id="r1"))
    found = read(store, limit=1)
    assert found[-2:] == ["run r2", "version n 3"]


def test_filters_are_left_to_the_server() -> None:
    reader = FakeReader({"default": a_store()})
    runs = {"since": "2026-01-01T00:00Z", "statuses": ["FINISHED"]}
    read_all(a_source(reader, runs=runs, limit=7))
    [only] = reader.filters
    assert (only.since_ms, only.statuses, only.limit) == (1767225600000, ("FINISHED",), 7)


def selected(runs: list[Run], versions: list[ModelVersion], **chosen: str) -> list[str]:
    names = dict.fromkeys(version.name for version in versions)
    store = FakeStore([an_experiment()], runs, [RegisteredModel(name) for name in names], versions)
    found = read(store, runs=chosen)
    return [each.removeprefix("run ") for each in found if each.startswith("run")]


MODELS = [
    a_run("plain"),
    a_run("made", model_outputs=(ModelOutput("m-1"),)),
    a_run("logged", tags={"mlflow.log-model.history": "[]"}),
    a_run("registered"),
]
VERSION = ModelVersion("m", "1", run_id="registered")


def test_runs_are_selected_by_what_they_made() -> None:
    everything = ["plain", "made", "logged", "registered"]
    assert selected(MODELS, [VERSION], select="all") == everything
    assert selected(MODELS, [VERSION], select="with_model") == everything[1:]
    assert selected(MODELS, [VERSION], select="registered") == ["registered"]


FAMILY = [
    a_run("top"),
    a_run("child", tags={"mlflow.parentRunId": "top"}),
    a_run("grandchild", tags={"mlflow.parentRunId": "child"}),
    a_run("registered", tags={"mlflow.parentRunId": "top"}),
    a_run("deleted", tags={"mlflow.parentRunId": "top"}, lifecycle_stage="deleted"),
]


def test_child_runs_can_be_left_out_but_not_registered_ones() -> None:
    assert set(selected(FAMILY, [VERSION], children="include")) == {run.run_id for run in FAMILY}
    assert selected(FAMILY, [VERSION], children="skip") == ["top", "registered"]
    assert selected(FAMILY, [VERSION], children="collapse") == ["top", "registered"]


def test_collapsed_children_are_counted_on_the_top_most_parent() -> None:
    reader = FakeReader({"default": FakeStore([an_experiment()], FAMILY)})
    [top] = [
        record
        for record in read_all(a_source(reader, runs={"children": "collapse"}))
        if isinstance(record, JoinedRun)
    ]
    assert top.children == 3
    assert reader.calls.count(("default", "runs")) == 2


def test_a_run_without_children_counts_none() -> None:
    reader = FakeReader({"default": FakeStore([an_experiment()], [a_run("alone")])})
    [_, alone] = read_all(a_source(reader, runs={"children": "collapse"}))
    assert isinstance(alone, JoinedRun)
    assert alone.children is None


def test_a_deleted_run_leaves_its_versions_alive() -> None:
    store = FakeStore(
        [an_experiment()],
        [a_run("r1", lifecycle_stage="deleted")],
        [RegisteredModel("m")],
        [ModelVersion("m", "1", run_id="r1")],
    )
    entities = entities_of(a_source(FakeReader({"default": store})))
    run = entities["urn:li:mlModel:(urn:li:dataPlatform:mlflow,r1,PROD)"]
    version = entities["urn:li:mlModel:(urn:li:dataPlatform:mlflow,m_1,PROD)"]
    assert run.aspects["status"] == {"removed": True}
    assert "versionProperties" not in run.aspects
    assert version.aspects["status"] == {"removed": False}
    assert version.aspects["mlModelProperties"]["customProperties"]["mlflow.run_id"] == "r1"


def test_each_workspace_is_read_under_names_of_its_own() -> None:
    reader = FakeReader(
        {
            "default": FakeStore([an_experiment("1", "fraud")]),
            "team-a": FakeStore([an_experiment("7", "fraud")], [a_run("r1", "7")]),
            "secret": FakeStore([an_experiment("9", "hidden")]),
        }
    )
    source = a_source(reader, workspaces={"deny": ["secret"]})
    entities = entities_of(source)
    group = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,{},PROD)"
    assert list(entities) == [
        group.format("fraud"),
        group.format("team-a.fraud"),
        "urn:li:mlModel:(urn:li:dataPlatform:mlflow,team-a.r1,PROD)",
    ]
    custom = entities[group.format("team-a.fraud")].aspects["mlModelGroupProperties"]
    assert custom["customProperties"]["mlcat.source"] == "mlflow:0123456789ab:team-a"
    assert custom["externalUrl"] == "http://mlflow:5000/#/experiments/7?workspace=team-a"


def test_a_limit_holds_over_all_workspaces() -> None:
    runs = [a_run(f"r{n}") for n in range(3)]
    stores = {name: FakeStore([an_experiment()], runs) for name in ("default", "a", "b")}
    reader = FakeReader(stores)
    found = [each for each in read_all(a_source(reader, limit=4)) if isinstance(each, JoinedRun)]
    assert len(found) == 4
    assert ("b", "experiments") not in reader.calls


def a_model(number: int, made_ms: int | None = None) -> LoggedModel:
    name = f"model {number}"
    return LoggedModel(f"m-{number}", "1", name, "READY", f"r{number}", created_at_ms=made_ms)


def making(number: int, end_ms: int | None = None) -> Run:
    outputs = (ModelOutput(f"m-{number}"),)
    return a_run(f"r{number}", model_outputs=outputs, end_time_ms=end_ms)


def models_of(
    made_by: list[Run], models: list[LoggedModel], **config: Any
) -> tuple[list[str], int]:
    reader = FakeReader({"default": FakeStore([an_experiment()], made_by, models=models)})
    records = read_all(a_source(reader, **config))
    found = [name for each in records if isinstance(each, JoinedRun) for name in each.models]
    return found, sum("logged" in name for _, name in reader.calls)


def test_logged_models_are_listed_where_no_run_made_any() -> None:
    assert models_of([a_run("r1"), a_run("r2", model_inputs=("m-1",))], [a_model(1)]) == ([], 1)


@pytest.mark.parametrize("apart_ms", [1, 10 * DAY_MS])
@pytest.mark.parametrize("order", [range(9), range(8, -1, -1)], ids=["oldest", "newest"])
def test_logged_models_are_listed_once_whichever_comes_first(order: range, apart_ms: int) -> None:
    runs = [making(n, end_ms=n * apart_ms) for n in range(9)]
    models = [a_model(n, made_ms=n * apart_ms) for n in order]
    assert models_of(runs, models) == ([f"m-{n}" for n in range(9)], 1)


def test_a_model_that_is_gone_is_looked_for_no_further_than_its_run() -> None:
    models = [a_model(n, made_ms=n * DAY_MS) for n in range(1, 50)]
    store = FakeStore([an_experiment()], [making(0, end_ms=1)], models=models)
    reader = FakeReader({"default": store})
    run = next(one for one in records_of(a_source(reader)) if isinstance(one, JoinedRun))
    assert run.models == {}
    assert reader.pages["logged_models 1"] == 2  # a page of the listing, then the model by its id
    [model] = a_source(reader).map(run)
    assert [note.kind for note in model.notes] == ["logged_model_unlisted"]


def test_models_of_runs_that_are_not_asked_for_are_let_go() -> None:
    runs = [a_run("r0", tags={"mlflow.parentRunId": "r1"}, model_outputs=(ModelOutput("m-0"),))]
    found, listings = models_of(
        [*runs, making(1)], [a_model(0), a_model(1)], runs={"children": "skip"}
    )
    assert (found, listings) == (["m-1"], 1)


def test_a_version_made_from_a_logged_model_joins_the_run_that_made_it() -> None:
    store = FakeStore(
        [an_experiment()],
        [a_run("r1", model_outputs=(ModelOutput("m-1"),))],
        [RegisteredModel("m")],
        [
            ModelVersion("m", "1", model_id="m-1"),
            ModelVersion("m", "2", model_id="m-2"),
        ],
        [LoggedModel("m-2", "1", "boost", "READY", params={"depth": "3"})],
    )
    entities = entities_of(a_source(FakeReader({"default": store})))
    run = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,r1,PROD)"
    version = entities["urn:li:mlModel:(urn:li:dataPlatform:mlflow,m_1,PROD)"]
    custom = version.aspects["mlModelProperties"]["customProperties"]
    assert (custom["mlflow.run_id"], custom["mlflow.run_model"]) == ("r1", run)
    alone = entities["urn:li:mlModel:(urn:li:dataPlatform:mlflow,m_2,PROD)"]
    assert alone.aspects["mlModelProperties"]["hyperParams"] == [{"name": "depth", "value": "3"}]


def test_what_the_registry_says_of_a_model_reaches_it_and_its_versions() -> None:
    store = FakeStore(
        [an_experiment()],
        registered=[RegisteredModel("m", aliases={"champion": "10", "old": "9"})],
        versions=[ModelVersion("m", number) for number in ("9", "10")],
    )
    group, *versions = list(entities_of(a_source(FakeReader({"default": store}))).values())[-3:]
    assert group.aspects["mlModelGroupProperties"]["version"] == {"versionTag": "10"}
    aliases = [one.aspects["versionProperties"]["aliases"] for one in versions]
    assert aliases == [[{"versionTag": "old"}], [{"versionTag": "champion"}]]


def test_versions_come_whose_registered_model_is_not_listed() -> None:
    assert read(FakeStore(versions=[ModelVersion("m", "1")])) == ["version m 1"]


def test_long_lists_of_groups_and_versions_come_in_pages() -> None:
    models = [RegisteredModel(f"m{n}") for n in range(1100)]
    store = FakeStore(registered=models, versions=[ModelVersion(m.name, "1") for m in models])
    pages = [len(page) for page in pages_of(a_source(FakeReader({"default": store})))]
    assert pages == [0, 500, 500, 100, 500, 500, 100]


def test_what_a_run_keeps_of_its_experiment_is_small() -> None:
    experiment = Experiment("1", "fraud", tags={"mlflow.note.content": "long"})
    [_, run] = read_all(a_source(FakeReader({"default": FakeStore([experiment], [a_run()])})))
    assert isinstance(run, JoinedRun)
    assert run.experiment == Experiment("1", "fraud")


def test_options_reach_the_mapping() -> None:
    store = FakeStore([an_experiment()], [a_run("r1", user_id="Root")])
    source = a_source(
        FakeReader({"default": store}),
        env="dev",
        instance="eu",
        owners={"ignore": [" ROOT "]},
        naming={"model": "run-{run_id}"},
        ui_url="https://ml.example.com",
    )
    *_, model = entities_of(source).values()
    assert model.urn == "urn:li:mlModel:(urn:li:dataPlatform:mlflow,eu.run-r1,DEV)"
    assert model.aspects["ownership"] == {"owners": []}
    url = model.aspects["mlModelProperties"]["externalUrl"]
    assert url == "https://ml.example.com/#/experiments/1/runs/r1"


def test_names_that_cannot_be_made_are_an_error_of_the_recipe() -> None:
    with pytest.raises(RecipeError, match="bytes"):
        a_source(FakeReader({}), instance="x" * 600)


def test_databricks_links_lead_to_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_HOST", "acme.cloud.databricks.com")
    monkeypatch.setenv("DATABRICKS_TOKEN", "dapi")
    store = FakeStore([an_experiment()])
    [group] = entities_of(
        a_source(FakeReader({"default": store}), tracking_uri="databricks")
    ).values()
    url = group.aspects["mlModelGroupProperties"]["externalUrl"]
    assert url == "https://acme.cloud.databricks.com/ml/experiments/1"


def test_the_reader_is_opened_when_needed_and_closed_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = FakeReader({"default": FakeStore()})
    monkeypatch.setattr(source_module, "open_reader", lambda _: reader)
    source = MlflowSource(MlflowConfig())
    source.close()
    assert reader.closed == 0
    assert [finding.what for finding in source.check()] == ["the MLflow server"]
    list(records_of(source))
    assert source.traffic.requests_made() == 3
    assert reader.closed == 1, "what a database holds for the reading ends with it"
    source.close()
    source.close()
    assert reader.closed == 3


def test_a_shard_has_the_runs_of_its_experiment_with_their_versions() -> None:
    reader = FakeReader({"default": a_store()})
    request = ReadRequest(Shards(["default/1"]))
    runs = [one for one in read_all(a_source(reader), request) if isinstance(one, JoinedRun)]
    assert {one.run_id: [v.name for v in one.versions] for one in runs} == {"r1": ["m"], "r3": []}


def test_of_a_shard_whose_experiment_is_gone_only_experiments_are_listed() -> None:
    reader = FakeReader({"default": a_store()})
    assert read_all(a_source(reader), ReadRequest(Shards(["default/77"]))) == []
    assert [name for _, name in reader.calls] == ["experiments"]


def test_experiments_in_the_trash_come_after_live_ones_and_share_the_group_of_a_namesake() -> None:
    experiments = [
        an_experiment("1", "fraud", lifecycle_stage="deleted"),
        an_experiment("2", "fraud"),
        an_experiment("3", "old", lifecycle_stage="deleted"),
    ]
    found = read_all(a_source(FakeReader({"default": FakeStore(experiments)})))
    shared = [
        (one.experiment.experiment_id, one.namesake)
        for one in found
        if isinstance(one, JoinedExperiment)
    ]
    assert shared == [("2", None), ("1", "2"), ("3", None)]


def test_versions_are_in_no_shard_and_come_with_the_rest() -> None:
    # Shards work side by side, and the greatest version of a model is written before the others.
    shard = a_source(FakeReader({"default": a_store()}))
    shards = a_source(FakeReader({"default": a_store()})).shards()
    runs = ReadRequest(Shards([unit.key for unit in shards]))
    assert [shown(one) for one in read_all(shard, runs)] == ["run r1", "run r2", "run r3"]
    rest = entities_of(a_source(FakeReader({"default": a_store()})), ReadRequest(Remainder()))
    written = {urn for urn, one in rest.items() if "versionProperties" in one.aspects}
    versions = ("m_1", "n_1", "n_2", "n_3")
    assert written == {f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{n},PROD)" for n in versions}


def test_the_second_object_of_one_urn_within_a_server_is_refused_or_noted() -> None:
    def a_workspace(experiment_id: str, name: str) -> FakeStore:
        return FakeStore(
            [an_experiment(experiment_id, name)],
            [a_run(f"r{experiment_id}", experiment_id)],
            [RegisteredModel(name), RegisteredModel(f"own {experiment_id}")],
            [ModelVersion(name, "1", run_id=f"r{experiment_id}")],
        )

    stores = {"default": a_workspace("1", "team-a.churn"), "team-a": a_workspace("2", "churn")}
    for _ in range(2):
        source = a_source(FakeReader(stores))
        records = read_all(source)
        assert {shown(one) for one in records if not isinstance(one, JoinedRun)} == {
            *("experiment team-a.churn", "registered team-a.churn", "registered own 1"),
            *("version team-a.churn 1", "experiment churn", "registered own 2"),
            "refused registered model churn",
        }
        [refused] = [one for one in records if isinstance(one, RefusedRecord)]
        assert refused.reason.startswith("a model of mlflow:0123456789ab:default has the same URN")
        experiments = [one for one in records if isinstance(one, JoinedExperiment)]
        [second] = source.map(experiments[1])
        assert not second.aspects
        assert [note.kind for note in second.notes] == ["experiments_of_one_name"]


@pytest.mark.parametrize(
    ("include", "ids", "unknown"),
    [
        (["agents", "skills"], (), ("skills:/none",)),
        (["agents", "skills"], ("r1",), ()),  # lists no assets
        (["agents"], ("r1",), ("skills:/none", "skills:/s")),
    ],
)
def test_what_a_pass_does_not_list_is_not_unknown(
    monkeypatch: pytest.MonkeyPatch,
    include: list[str],
    ids: tuple[str, ...],
    unknown: tuple[str, ...],
) -> None:
    monkeypatch.setattr(FakeReader, "assets", lambda *_: [Asset(SKILL, "s")])
    measured = Metric("q", 1.0, 5, 0)
    tags = {"mlflow.model.isExternal": "true", USES_TAG: "skills:/s, skills:/none"}
    agent = LoggedModel("m-1", "1", "a", "READY", model_type="agent", tags=tags)
    agent = replace(agent, metrics=(measured._replace(run_id="r1"),))
    # Of the run's own there are only metrics of the model: that is why the model comes with it.
    run = Run("r1", "1", status="FINISHED", metrics=(measured,))
    store = FakeStore([an_experiment("1", "e")], [run], models=[agent])
    source = a_source(FakeReader({"default": store}), include=include)
    request = ReadRequest(Runs(ids=ids)) if ids else ReadRequest()
    found = [one for one in records_of(source, request) if isinstance(one, JoinedAgent)]
    assert [one.unknown for one in found] == [unknown]
