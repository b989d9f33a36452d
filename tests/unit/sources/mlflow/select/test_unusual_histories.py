"""Histories that are right and rare: each ends as a first ingest of the same server does."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.sources.mlflow.values.records import ModelVersion, RegisteredModel
from support.fakes import model_urn
from support.mlflow_history import HOUR_MS, Recipe, Server


def children_start_with_their_parent_and_appear_later(server: Server) -> None:
    parent = server.store.runs[0]
    server.now_ms += 5 * HOUR_MS
    for _ in range(2):
        server.start_child(0)
        server.store.runs[-1] = replace(
            server.store.runs[-1],
            start_time_ms=parent.start_time_ms,
            end_time_ms=(parent.start_time_ms or 0) + 60_000,
            status="FINISHED",
        )


def a_run_moves_to_another_experiment(server: Server) -> None:
    run = server.store.runs[0]
    other = next(e for e in server.store.experiments if e.experiment_id != run.experiment_id)
    server.run(0, experiment_id=other.experiment_id)


def two_experiments_swap_their_names(server: Server) -> None:
    first, second = (one.name for one in server.store.experiments[:2])
    server.experiment(0, name=second)
    server.experiment(1, name=first)


def two_models_swap_their_names(server: Server) -> None:
    store = server.store
    names = {"a": "b", "b": "a"}
    store.registered = [replace(one, name=names[one.name]) for one in store.registered]
    store.versions = [replace(one, name=names[one.name]) for one in store.versions]


HISTORIES = (
    children_start_with_their_parent_and_appear_later,
    a_run_moves_to_another_experiment,
    two_experiments_swap_their_names,
    two_models_swap_their_names,
)


def content(recipe: Recipe) -> dict[str, dict[str, Aspect]]:
    """Return what the catalog has but for the mark of a reused name, which a first ingest lacks."""
    stored = {urn: dict(aspects) for urn, aspects in recipe.sink.stored.items()}
    for aspects in stored.values():
        for name, aspect in aspects.items():
            custom = aspect.get("customProperties")
            if isinstance(custom, dict) and "mlcat.reused" in custom:
                kept = {key: one for key, one in custom.items() if key != "mlcat.reused"}
                aspects[name] = {**aspect, "customProperties": kept}
    return stored


@pytest.mark.parametrize("full", [False, True], ids=["changes", "full"])
@pytest.mark.parametrize("history", HISTORIES)
def test_it_ends_as_a_first_ingest_does(
    history: Callable[[Server], None], tmp_path: Path, *, full: bool
) -> None:
    server = Server.in_use()
    server.store.registered = [RegisteredModel(n, created_at_ms=at) for at, n in enumerate("ab", 1)]
    server.store.versions = [
        ModelVersion(one, "1", server.store.runs[at].run_id, created_at_ms=at + 1)
        for at, one in enumerate("ab")
    ]
    recipe = Recipe(server, f"sqlite:///{tmp_path}/state.db", page=3)
    recipe.ingest()
    history(server)
    recipe.ingest(full=full)
    recipe.ingest(full=True)
    first = Recipe(server, f"sqlite:///{tmp_path}/first.db")
    first.ingest()
    assert content(recipe) == content(first)
    assert model_urn(server.store.runs[0].run_id) in recipe.sink.stored


@pytest.mark.parametrize("in_run", [False, True], ids=["alone", "in a run"])
def test_a_pass_over_changes_reads_the_versions_of_an_external_model_with_it(
    tmp_path: Path, *, in_run: bool
) -> None:
    server = Server.in_use()
    if in_run:
        server.make_agent(1)
    agent = [one for one in server.store.models if one.is_external][-1]
    server.store.registered.append(RegisteredModel("support", created_at_ms=1))
    run_id = agent.source_run_id
    made = ModelVersion("support", "1", run_id, created_at_ms=1, model_id=agent.model_id)
    server.store.versions.append(made)
    recipe = Recipe(server, f"sqlite:///{tmp_path}/state.db")
    recipe.ingest()
    server.now_ms += 50 * HOUR_MS
    recipe.ingest()
    server.measure_agent(-1)
    server.tag_agent(-1)
    recipe.ingest()
    first = Recipe(server, f"sqlite:///{tmp_path}/first.db")
    first.ingest()
    assert content(recipe) == content(first)
    version = recipe.sink.stored[model_urn("support_1")]["mlModelProperties"]
    assert [one["name"] for one in version["trainingMetrics"]] == ["score"]
