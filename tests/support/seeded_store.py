"""MLflow stores with ordinary content and hostile names, made by MLflow's own client.

`seed` fills any tracking URI, that of a server or of a database, with MLflow 2.9 and later::

    store = new_seeded_database(tmp_path / "mlflow.db")
    run_id = store.runs["parent"]
"""

import atexit
import copy
import functools
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mlcat_ingest.metadata.mlflow_keys import COMMIT_TAGS
from mlcat_ingest.sources.mlflow.values.records import (
    CONTEXT_TAG,
    NOTE_TAG,
    PARENT_TAG,
    REPO_TAGS,
    USER_TAG,
)
from mlcat_ingest.testing.mlflow_store import mlflow_client, move_artifacts

HOSTILE_NAMES: Final[tuple[str, ...]] = (
    "O'Brien's \"best\" model",
    "a,b (c), d'e% f%2C",
    "team/nightly\\build/2024",
    "x" * 300,
    "🦄 naïve — 模型 №1",
    "\u202eright to left\u202c \u05e9\u05dc\u05d5\u05dd",
    "two\nlines\tand a tab",
    "<script>alert('x')</script>&amp;",
    " leading and trailing ",
    "registered:taken",
    "'; DROP TABLE runs; --",
)

HOSTILE_KEYS: Final[tuple[str, ...]] = ("a b/c-d.e:f", "größe", "مفتاح", "k" * 250, "__proto__")

START_MS: Final = 1_700_000_000_000
"""The start of the first run, in epoch milliseconds; the others start up to 11 s later."""


@dataclass(slots=True)
class SeededStore:
    """The content of a seeded store: the id of each experiment, run and logged model by its name.

    Names of registered models are ids themselves.
    """

    experiments: dict[str, str] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    registered: list[str] = field(default_factory=list)
    logged_models: dict[str, str] = field(default_factory=dict)


def new_seeded_database(path: Path) -> SeededStore:
    """Make an MLflow store in SQLite at `path` that holds what `seed` makes; a copy, too."""
    template, made = _seeded_database()
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(template, path)
    move_artifacts(path)
    return copy.deepcopy(made)


@functools.cache
def _seeded_database() -> tuple[Path, SeededStore]:
    folder = Path(tempfile.mkdtemp(prefix="mlflow-store-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "seeded.db"
    return path, seed(f"sqlite:///{path}")


def seed(
    uri: str, *, logged_models: bool = True, name_chars: int = 300, colons: bool = True
) -> SeededStore:
    """Fill the store at `uri`, which may be empty; `logged_models` needs MLflow 3.

    SQLite alone takes names of more than 256 characters; `name_chars` cuts those of experiments.
    MLflow 2.9 takes no colon in a key: without `colons` keys have none.

    It gets nested runs, every run status, datasets, metrics that are no numbers, a deleted run and
    a deleted experiment. It also gets registered models with versions, stages and aliases, versions
    without a run, and hostile names. `logged_models` adds logged models and a prompt.

    Cost: about 500 requests.
    """
    made = SeededStore()
    with mlflow_client(uri) as client:
        _seed_runs(client, made)
        keys = HOSTILE_KEYS if colons else [key.replace(":", "_") for key in HOSTILE_KEYS]
        _seed_hostile(client, made, name_chars, keys)
        if logged_models:
            _seed_logged_models(client, made)
        _seed_registry(client, made)
    return made


def _run(
    client: Any, made: SeededStore, label: str, experiment_id: str, at: int, **tags: str
) -> str:
    run = client.create_run(experiment_id, start_time=START_MS + at, run_name=label, tags=tags)
    made.runs[label] = run.info.run_id
    return str(run.info.run_id)


def _seed_runs(client: Any, made: SeededStore) -> None:
    main = client.create_experiment("churn", tags={NOTE_TAG: "who leaves", "team": "a"})
    made.experiments["churn"] = main
    _seed_parent(client, made, main)
    parent = made.runs["parent"]
    for number, status in enumerate(("FINISHED", "FAILED", "KILLED"), 1):
        child = _run(client, made, f"child-{number}", main, 1_000 + number, **{PARENT_TAG: parent})
        client.set_terminated(child, status, START_MS + 2_000)
    _seed_datasets(client, parent, made.runs["child-1"])
    _run(client, made, "running", main, 3_000)
    _run(client, made, "running too", main, 3_000)
    client.delete_run(_run(client, made, "deleted", main, 4_000))
    gone = client.create_experiment("abandoned")
    made.experiments["abandoned"] = gone
    _run(client, made, "in-abandoned", gone, 5_000)
    client.delete_experiment(gone)


def _seed_parent(client: Any, made: SeededStore, experiment_id: str) -> None:
    from mlflow.entities import Metric, Param, RunTag

    git = {COMMIT_TAGS[0]: "0" * 40, USER_TAG: "ada", REPO_TAGS[-1]: "t.py"}
    parent = _run(client, made, "parent", experiment_id, 1_000, **git)
    client.log_batch(
        parent,
        metrics=[
            Metric("auc", 0.1, START_MS + 1_100, 0),
            Metric("auc", 0.9, START_MS + 1_200, 1),
            Metric("loss", float("nan"), START_MS + 1_200, 0),
            Metric("up", float("inf"), START_MS + 1_200, 0),
            Metric("down", float("-inf"), START_MS + 1_200, -3),
            Metric("tiny", 5e-324, START_MS + 1_200, 0),
            Metric("minus_zero", -0.0, START_MS + 1_200, 0),
            Metric("system/cpu_utilization_percentage", 12.5, START_MS + 1_200, 0),
        ],
        params=[Param("lr", "0.1"), Param("empty", ""), Param("deep", "v" * 6000)],
        tags=[RunTag(NOTE_TAG, "# a note"), RunTag("team", "growth")],
    )
    client.set_terminated(parent, "FINISHED", START_MS + 9_000)


def _seed_datasets(client: Any, parent: str, child: str) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    train = Dataset("train", "d1", "local", '{"uri": "s3://b/k.csv"}', '{"s": 1}', '{"n": 3}')
    context = [InputTag(CONTEXT_TAG, "training")]
    client.log_inputs(parent, datasets=[DatasetInput(train, context)])
    holdout = Dataset("holdout", "d2", "http", '{"url": "https://b/h.csv"}')
    used = [
        DatasetInput(train, []),
        DatasetInput(holdout, [InputTag(CONTEXT_TAG, "eval"), InputTag("b", "")]),
    ]
    client.log_inputs(child, datasets=used)


def _seed_hostile(client: Any, made: SeededStore, name_chars: int, keys: Iterable[str]) -> None:
    for at, name in enumerate(HOSTILE_NAMES):
        made.experiments[name] = client.create_experiment(name[:name_chars])
        run_id = client.create_run(
            made.experiments[name], start_time=START_MS + 10_000 + at, run_name=name[:250]
        ).info.run_id
        made.runs[name] = run_id
        client.log_param(run_id, "text", name)
        client.set_tag(run_id, "text", name)
        for key in keys:
            client.log_param(run_id, key, name)
            client.set_tag(run_id, key, name)
            client.log_metric(run_id, key, 1.5, timestamp=START_MS, step=0)


def _seed_logged_models(client: Any, made: SeededStore) -> None:
    from mlflow.entities import LoggedModelInput, LoggedModelOutput, LoggedModelStatus, Metric

    experiment = made.experiments["churn"]
    run_id = _run(client, made, "with-models", experiment, 6_000)
    for step, name in enumerate(("forest", "boosted")):
        model = client.create_logged_model(
            experiment,
            name=name,
            source_run_id=run_id,
            tags={"kind": name},
            params={"depth": "3"} if step == 0 else None,
            model_type="classifier",
        )
        status = LoggedModelStatus.READY if step == 0 else LoggedModelStatus.FAILED
        client.finalize_logged_model(model.model_id, status)
        client.log_outputs(run_id, models=[LoggedModelOutput(model.model_id, step)])
        metric = Metric("f1", 0.5 + step / 4, START_MS + 6_500, step, model_id=model.model_id)
        later = Metric("f1", 0.25, START_MS + 6_600, step, model_id=model.model_id)
        client.log_batch(run_id, metrics=[later, metric])
        made.logged_models[name] = model.model_id
    on_holdout = {"dataset_name": "holdout", "dataset_digest": "d2"}
    forest = made.logged_models["forest"]
    client.log_metric(run_id, "f1", 0.125, START_MS + 6_700, 3, model_id=forest, **on_holdout)
    user = _run(client, made, "takes-a-model", experiment, 6_100)
    client.log_inputs(user, models=[LoggedModelInput(forest)])


def _seed_registry(client: Any, made: SeededStore) -> None:
    names = [name for name in HOSTILE_NAMES if "/" not in name and ":" not in name]
    for name in ("churn-model", *(name[:250] for name in names)):
        client.create_registered_model(name, tags={"owner": "ada"}, description=f"about {name}")
        made.registered.append(name)
        run_id = made.runs["parent"]
        client.create_model_version(name, "s3://bucket/model", run_id, tags={"v": "1"})
    model = "churn-model"
    client.create_model_version(model, "s3://bucket/m2", made.runs["child-1"], description="two")
    client.create_model_version(model, "s3://bucket/orphan")
    if made.logged_models:
        model_id = made.logged_models["forest"]
        client.create_model_version(model, f"models:/{model_id}", model_id=model_id)
    client.delete_model_version(
        model, client.create_model_version(model, "s3://bucket/gone", made.runs["parent"]).version
    )
    client.set_model_version_tag(model, "3", "checked", "by hand")
    client.set_registered_model_alias(model, "champion", "2")
    client.set_registered_model_alias(model, "shadow", "2")
    client.transition_model_version_stage(model, "1", "Production")
    client.create_registered_model("empty-model")
    made.registered.append("empty-model")
    if made.logged_models:
        client.register_prompt("a-prompt", "Say {{what}}")
