"""One real MLflow store at several times, and catalogs to ingest it into: ours, and a GMS's."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.catalog_checks import everything
from support.catalog_server import running_catalog
from support.cli import report_of
from support.gms import GmsProfile, RunningGms, running_gms
from support.seeded_store import START_MS

Time = Literal["first", "less"]

NAMING = Naming()
MISLEADING = "Expected version 1, actual version 2"


@dataclass(frozen=True)
class Past:
    """Databases of one MLflow store by time, and the ids of its runs by name."""

    databases: Mapping[Time, Path]
    runs: Mapping[str, str]

    @classmethod
    def make(cls, folder: Path) -> "Past":
        """Train, register, and delete."""
        database = folder / "mlflow.db"
        times: dict[Time, Path] = {}
        with mlflow_client(f"sqlite:///{database}") as client:
            runs = _train(client)
            _register(client, runs)
            times["first"] = _kept(database, "first")
            client.delete_run(runs["b"])
            client.delete_model_version("scorer", "1")
            client.delete_registered_model("retired")
            times["less"] = _kept(database, "less")
        return cls(times, runs)


def _train(client: Any) -> dict[str, str]:
    from mlflow.entities import Metric, Param

    experiment = client.create_experiment("churn", tags={"mlflow.note.content": MISLEADING})
    runs: dict[str, str] = {}
    for at, name in enumerate(("a", "b", "c", "long", "running", "deleted")):
        note = "so it goes. " * 400 if name == "long" else f"{MISLEADING}: {name}"
        tags = {"mlflow.user": "ada", "mlflow.note.content": note}
        run = client.create_run(
            experiment, start_time=START_MS + at * 1_000, run_name=name, tags=tags
        )
        runs[name] = run.info.run_id
        metrics = [Metric("accuracy", 0.9 - at / 10, START_MS + at * 1_000 + 500, 0)]
        client.log_batch(runs[name], metrics=metrics, params=[Param("depth", str(at))])
        if name != "running":
            client.set_terminated(runs[name], "FINISHED", START_MS + at * 1_000 + 900)
    client.delete_run(runs["deleted"])
    return runs


def _register(client: Any, runs: Mapping[str, str]) -> None:
    for name in ("scorer", "retired"):
        client.create_registered_model(name, tags={"team": "a"}, description=MISLEADING)
        client.create_model_version(name, "s3://b/1", runs["a"], tags={"v": "1"})
        client.create_model_version(name, "s3://b/2", runs["b"], description=MISLEADING)
        client.create_model_version(name, "s3://b/3")
        # Two versions of one model on one run.
        client.create_model_version(name, "s3://b/4", runs["a"])
        client.set_registered_model_alias(name, "champion", "1")
        client.transition_model_version_stage(name, "1", "Production")


def _kept(database: Path, name: str) -> Path:
    return Path(shutil.copy(database, database.with_name(f"{name}.db")))


@dataclass
class Witness:
    """Keeps the proposals of each request in `seen`, as the server sees them."""

    app: ASGIApp
    seen: list[list[dict[str, Any]]] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Look at a request, and pass it on."""
        if scope["type"] != "http" or b"ingestProposal" not in scope["query_string"]:
            await self.app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        self.seen.append(json.loads(body).get("proposals", []))
        given: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return given.pop() if given else await receive()

        await self.app(scope, again, send)


@dataclass
class World:
    """One catalog, and a folder with a recipe that ingests the store as it is at some time."""

    folder: Path
    past: Past
    url: str
    store: Store
    witness: Witness
    gms: RunningGms | None = None
    reports: list[dict[str, Any]] = field(default_factory=list)

    @property
    def recipe(self) -> str:
        return str(self.folder / "recipe.yml")

    def ingest(self, time: Time, *options: str, more: str = "") -> dict[str, Any]:
        """Run the recipe over the store as it is at `time`; return the report."""
        shutil.copy(self.past.databases[time], self.folder / "mlflow.db")
        (self.folder / "recipe.yml").write_text(
            "name: night\nwriter_id: night\n"
            "source: {type: mlflow, config: {tracking_uri: 'sqlite:///mlflow.db'}}\n"
            f"sink: {{type: rest, config: {{server: '{self.url}'}}}}\n{more}"
        )
        found = report_of(self.recipe, *options, code=None)
        self.reports.append(found)
        return found

    def catch_up(self) -> None:
        """Let the index of a server that lags catch up, as it does overnight."""
        if self.gms is not None:
            self.gms.catch_up()

    def model(self, run: str) -> str:
        """Return the URN of a run's model."""
        return NAMING.model(self.past.runs[run]).urn

    def aspect(self, urn: str, name: str) -> Any:
        """Return a stored aspect; None if there is none."""
        found = self.store.get_many([urn], [name]).get(urn, {}).get(name)
        return None if found is None else json.loads(json.dumps(found.value))

    def contents(self) -> dict[str, dict[str, Any]]:
        """Return every aspect of every entity."""
        return {
            urn: {
                name: json.loads(value) if isinstance(value, str) else value
                for name, value in aspects.items()
            }
            for urn, aspects in everything(self.store).items()
        }


@contextmanager
def plain_world(folder: Path, past: Past) -> Iterator[World]:
    """Give a world whose catalog is the embedded one."""
    folder.mkdir()
    witnesses: list[Witness] = []

    def around(app: ASGIApp) -> ASGIApp:
        witnesses.append(Witness(app))
        return witnesses[0]

    with running_catalog(folder / "catalog.db", around=around) as catalog:
        yield World(folder, past, catalog.url, catalog.store, witnesses[0])


@contextmanager
def gms_world(folder: Path, past: Past, profile: GmsProfile) -> Iterator[World]:
    """Give a world whose catalog answers as a GMS."""
    folder.mkdir()
    witnesses: list[Witness] = []

    def around(app: ASGIApp) -> ASGIApp:
        witnesses.append(Witness(app))
        return witnesses[0]

    with running_gms(folder / "gms.db", profile, around=around) as gms:
        yield World(folder, past, gms.url, gms.store, witnesses[0], gms)


def differences(
    expected: Mapping[str, Mapping[str, Any]], held: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, str, Any, Any]]:
    """Return each aspect, by URN and name, in which two catalogs differ, and both of its values."""
    return [
        (urn, name, wanted, found)
        for urn in sorted({*expected, *held})
        for name in sorted({*expected.get(urn, {}), *held.get(urn, {})} or {""})
        if (wanted := _aspect(expected, urn, name)) != (found := _aspect(held, urn, name))
    ]


def _aspect(contents: Mapping[str, Mapping[str, Any]], urn: str, name: str) -> Any:
    """Return an aspect; an entity without any is there, but has none."""
    return contents[urn].get(name, "no such aspect") if urn in contents else "no such entity"
