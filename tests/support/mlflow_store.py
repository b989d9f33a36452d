"""Fills MLflow stores with what real ones hold, and with what nobody expects.

`seed` goes through MlflowClient (any tracking URI); `insert_runs` writes rows straight into a
SQLite store that exists, for stores of thousands of runs.
"""

import atexit
import copy
import functools
import os
import shutil
import sqlite3
import tempfile
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")

HOSTILE_NAMES: tuple[str, ...] = (
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

HOSTILE_KEYS: tuple[str, ...] = ("a b/c-d.e:f", "größe", "مفتاح", "k" * 250, "__proto__")

START_MS = 1_700_000_000_000


@dataclass(slots=True)
class Seeded:
    """What `seed` made: names to ids."""

    experiments: dict[str, str] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    registered: list[str] = field(default_factory=list)
    logged_models: dict[str, str] = field(default_factory=dict)


def new_database(path: Path) -> None:
    """Make an empty MLflow store: a copy, since MLflow takes a second of CPU to make its tables."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_empty_database(), path)
    with closing(sqlite3.connect(path)) as connection, connection:
        place = (str(path.parent / "artifacts" / "0"),)
        connection.execute("UPDATE experiments SET artifact_location = ?", place)


@functools.cache
def _empty_database() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="mlflow-store-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "mlflow.db"
    with _client(f"sqlite:///{path}") as client:
        client.search_experiments()
        client.search_registered_models()
    return path


def new_seeded_database(path: Path) -> Seeded:
    """Make a SQLite store that holds what `seed` makes; a copy, too."""
    template, made = _seeded_database()
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(template, path)
    return copy.deepcopy(made)


@functools.cache
def _seeded_database() -> tuple[Path, Seeded]:
    path = _empty_database().with_name("seeded.db")
    return path, seed(f"sqlite:///{path}")


@contextmanager
def mlflow_client(uri: str) -> Iterator[Any]:
    """Give an `MlflowClient` of this environment's MLflow, its warnings silenced.

    A SQLite database that is not there is made.
    """
    path = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite:///") and not path.exists():
        new_database(path)
    with _client(uri) as client:
        yield client


@contextmanager
def _client(uri: str) -> Iterator[Any]:
    """Give an `MlflowClient`.

    `uri` is the process's tracking URI meanwhile: what MLflow looks up on its own would otherwise
    make a store in the working directory.
    """
    before = os.environ.get("MLFLOW_TRACKING_URI")
    os.environ["MLFLOW_TRACKING_URI"] = uri
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from mlflow import MlflowClient

            yield MlflowClient(tracking_uri=uri, registry_uri=uri)
    finally:
        if before is None:
            del os.environ["MLFLOW_TRACKING_URI"]
        else:
            os.environ["MLFLOW_TRACKING_URI"] = before


def seed(uri: str, *, logged_models: bool = True, name_chars: int = 300) -> Seeded:
    """Fill the store at `uri`; `logged_models` needs an MLflow 3 server.

    SQLite alone takes names of more than 256 characters; `name_chars` cuts those of experiments.

    It holds: nested runs, every run status, datasets, metrics that are no numbers, a deleted run,
    a deleted experiment, a registered model with versions, stages and aliases, versions without a
    run, a prompt where the server knows them, logged models, and hostile names everywhere.
    """
    made = Seeded()
    with mlflow_client(uri) as client:
        _seed_runs(client, made)
        _seed_hostile(client, made, name_chars)
        if logged_models:
            _seed_logged_models(client, made)
        _seed_registry(client, made)
    return made


def _run(client: Any, made: Seeded, label: str, experiment_id: str, at: int, **tags: str) -> str:
    run = client.create_run(experiment_id, start_time=START_MS + at, run_name=label, tags=tags)
    made.runs[label] = run.info.run_id
    return str(run.info.run_id)


def _seed_runs(client: Any, made: Seeded) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag

    main = client.create_experiment(
        "churn", tags={"mlflow.note.content": "who leaves", "team": "a"}
    )
    made.experiments["churn"] = main
    git = {"mlflow.source.git.commit": "0" * 40, "mlflow.user": "ada", "mlflow.source.name": "t.py"}
    parent = _run(client, made, "parent", main, 1_000, **git)
    client.log_batch(
        parent,
        metrics=[
            Metric("auc", 0.1, START_MS + 1_100, 0),
            Metric("auc", 0.9, START_MS + 1_200, 1),
            Metric("loss", float("nan"), START_MS + 1_200, 0),
            Metric("up", float("inf"), START_MS + 1_200, 0),
            Metric("down", float("-inf"), START_MS + 1_200, -3),
            Metric("tiny", 5e-324, START_MS + 1_200, 0),
            Metric("system/cpu_utilization_percentage", 12.5, START_MS + 1_200, 0),
        ],
        params=[Param("lr", "0.1"), Param("empty", ""), Param("deep", "v" * 6000)],
        tags=[RunTag("mlflow.note.content", "# a note"), RunTag("feast.feature_service", "fs")],
    )
    dataset = Dataset("train", "d1", "local", '{"uri": "s3://b/k.csv"}', '{"s": 1}', '{"n": 3}')
    context = [InputTag("mlflow.data.context", "training")]
    client.log_inputs(parent, datasets=[DatasetInput(dataset, context)])
    client.set_terminated(parent, "FINISHED", START_MS + 9_000)
    for number, status in enumerate(("FINISHED", "FAILED", "KILLED"), 1):
        child = _run(
            client, made, f"child-{number}", main, 1_000 + number, **{"mlflow.parentRunId": parent}
        )
        client.set_terminated(child, status, START_MS + 2_000)
    holdout = Dataset("holdout", "d2", "http", '{"url": "https://b/h.csv"}')
    used = [
        DatasetInput(dataset, []),
        DatasetInput(holdout, [InputTag("mlflow.data.context", "eval"), InputTag("b", "")]),
    ]
    client.log_inputs(made.runs["child-1"], datasets=used)
    _run(client, made, "running", main, 3_000)
    _run(client, made, "running too", main, 3_000)
    client.delete_run(_run(client, made, "deleted", main, 4_000))
    gone = client.create_experiment("abandoned")
    made.experiments["abandoned"] = gone
    _run(client, made, "in-abandoned", gone, 5_000)
    client.delete_experiment(gone)


def _seed_hostile(client: Any, made: Seeded, name_chars: int) -> None:
    for at, name in enumerate(HOSTILE_NAMES):
        made.experiments[name] = client.create_experiment(name[:name_chars])
        run_id = client.create_run(
            made.experiments[name], start_time=START_MS + 10_000 + at, run_name=name[:250]
        ).info.run_id
        made.runs[name] = run_id
        client.log_param(run_id, "text", name)
        client.set_tag(run_id, "text", name)
        for key in HOSTILE_KEYS:
            client.log_param(run_id, key, name)
            client.set_tag(run_id, key, name)
            client.log_metric(run_id, key, 1.5, timestamp=START_MS, step=0)


def _seed_logged_models(client: Any, made: Seeded) -> None:
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


def _seed_registry(client: Any, made: Seeded) -> None:
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


def insert_runs(
    db_path: Path,
    count: int,
    *,
    experiments: int = 10,
    params: int = 2,
    metrics: int = 2,
    same_start: bool = False,
    prefix: str = "bulk",
) -> list[str]:
    """Insert `count` finished runs spread over `experiments` new experiments; return their ids.

    With `same_start` all runs start in the same millisecond: a listing has only ties to go by.
    """
    with closing(sqlite3.connect(db_path, timeout=30)) as connection, connection:
        experiment_ids = _insert_experiments(connection, experiments, prefix)
        rows = []
        tail = zlib.crc32(prefix.encode()) % 16**6
        for number in range(count):
            start = START_MS if same_start else START_MS + number * 1_000
            run_id = f"{(number * 2_654_435_761) % 2**32:08x}{tail:06x}"
            rows.append((f"{run_id}{number:018x}", number, start))
        connection.executemany(
            "INSERT INTO runs (run_uuid, name, user_id, status, start_time, end_time,"
            " lifecycle_stage, artifact_uri, experiment_id, source_type)"
            " VALUES (?, ?, 'ada', 'FINISHED', ?, ?, 'active', ?, ?, 'LOCAL')",
            [
                (
                    run_id,
                    f"{prefix}-run-{number}",
                    start,
                    start + 500,
                    f"s3://artifacts/{run_id}",
                    experiment_ids[number % experiments],
                )
                for run_id, number, start in rows
            ],
        )
        connection.executemany(
            "INSERT INTO params (key, value, run_uuid) VALUES (?, ?, ?)",
            ((f"p{k}", f"{n}.{k}", run_id) for run_id, n, _ in rows for k in range(params)),
        )
        connection.executemany(
            "INSERT INTO latest_metrics (key, value, timestamp, step, is_nan, run_uuid)"
            " VALUES (?, ?, ?, ?, 0, ?)",
            (
                (f"m{k}", n + k / 7, start, k, run_id)
                for run_id, n, start in rows
                for k in range(metrics)
            ),
        )
        connection.executemany(
            "INSERT INTO tags (key, value, run_uuid) VALUES ('mlflow.user', 'ada', ?)",
            ((run_id,) for run_id, _, _ in rows),
        )
    return [run_id for run_id, _, _ in rows]


def insert_versions(db_path: Path, name: str, run_ids: Sequence[str]) -> None:
    """Insert a registered model with a version of each run."""
    times = {"creation_time": START_MS, "last_updated_time": START_MS}
    versions = (
        {
            **times,
            "name": name,
            "version": number,
            "current_stage": "None",
            "source": f"runs:/{run_id}/model",
            "run_id": run_id,
            "status": "READY",
        }
        for number, run_id in enumerate(run_ids, start=1)
    )
    with closing(sqlite3.connect(db_path, timeout=30)) as connection, connection:
        _insert(connection, "registered_models", {**times, "name": name})
        for version in versions:
            _insert(connection, "model_versions", version)


def _insert_experiments(connection: sqlite3.Connection, count: int, prefix: str) -> list[int]:
    ids = []
    for number in range(count):
        row: dict[str, Any] = {
            "name": f"{prefix}-{number}",
            "artifact_location": f"s3://artifacts/{prefix}-{number}",
            "lifecycle_stage": "active",
            "creation_time": START_MS + number,
            "last_update_time": START_MS + number,
        }
        ids.append(_insert(connection, "experiments", row))
    return ids


def _insert(connection: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> int:
    columns = {found[1] for found in connection.execute(f"PRAGMA table_info({table})")}
    whole = {**row, "workspace": "default"} if "workspace" in columns else row
    names, marks = ", ".join(whole), ", ".join("?" * len(whole))
    done = connection.execute(
        f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(whole.values())
    )
    return int(done.lastrowid or 0)
