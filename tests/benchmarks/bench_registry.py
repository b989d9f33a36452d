"""How soon the catalog shows an alias that was moved in MLflow's registry, and whether any is lost.

    python tests/benchmarks/bench_registry.py [--moves 1000] [--kill SECONDS]

A real `mlflow server --app-name mlcat`, the embedded catalog and `hooks drain --follow` are
processes of their own. Clients move the alias of ten models all the time. A move counts from before
its call until the version has the alias in the catalog, or that of a later move. Those on one
machine share its cores. With --kill the drain is killed and started anew every so many seconds.
"""

import argparse
import contextlib
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.measure import serving
from support.ports import free_port

MODELS, VERSIONS, CLIENTS = 10, 10, 4
ALIAS = "champion"
PATIENCE_S = 60.0

RECIPE = """\
name: bench
source: {{type: mlflow, config: {{tracking_uri: "{mlflow}"}}}}
sink: {{type: rest, config: {{server: "{catalog}"}}}}
"""


class Json:
    """A connection that is kept open, of one thread."""

    def __init__(self, url: str) -> None:
        self._http = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)

    def post(self, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        self._http.request("POST", path, json.dumps(body), headers)
        reply = self._http.getresponse()
        content = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{path} answered {reply.status}: {content[:500]!r}")
        return json.loads(content)


class Moves:
    """The moves of each model in their order: when each began, and when the catalog showed it."""

    def __init__(self) -> None:
        self.began: list[list[float]] = [[] for _ in range(MODELS)]
        self.took: list[list[float]] = [[] for _ in range(MODELS)]
        self.calls: list[float] = []

    def see(self, model: int, version: int) -> None:
        """Take note that the catalog shows an alias on a version: the next move that put it there.

        A later one may have, so this takes longer rather than shorter than it is.
        """
        began, took = self.began[model], self.took[model]
        for number in range(len(took), min(len(began), len(took) + VERSIONS)):
            if number % VERSIONS + 1 == version:
                now = time.perf_counter()
                took += [now - one for one in began[len(took) : number + 1]]
                return

    @property
    def lost(self) -> int:
        return sum(map(len, self.began)) - sum(map(len, self.took))


def version_urn(model: int, version: int) -> str:
    return f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,model{model}_{version},PROD)"


def prepare(mlflow: str) -> None:
    api, client = "/api/2.0/mlflow", Json(mlflow)
    for model in range(MODELS):
        client.post(f"{api}/registered-models/create", {"name": f"model{model}"})
        for _ in range(VERSIONS):
            body = {"name": f"model{model}", "source": "s3://bucket/model"}
            client.post(f"{api}/model-versions/create", body)


def move(mlflow: str, moves: Moves, models: range, count: int) -> None:
    client = Json(mlflow)
    for number in range(count):
        for model in models:
            version = str(number % VERSIONS + 1)
            body = {"name": f"model{model}", "alias": ALIAS, "version": version}
            began = time.perf_counter()
            moves.began[model].append(began)
            client.post("/api/2.0/mlflow/registered-models/alias", body)
            moves.calls.append(time.perf_counter() - began)


def watch(catalog: str, moves: Moves, end: threading.Event) -> None:
    """Look at all versions in the catalog, as often as that takes little."""
    client = Json(catalog)
    urns = {
        version_urn(model, version): (model, version)
        for model in range(MODELS)
        for version in range(1, VERSIONS + 1)
    }
    body = [{"urn": urn, "versionProperties": {}} for urn in urns]
    while not end.wait(0.05):
        for entity in client.post("/openapi/v3/entity/mlmodel/batchGet", body):
            held = entity.get("versionProperties", {}).get("value", {})
            if any(alias["versionTag"] == ALIAS for alias in held.get("aliases") or ()):
                moves.see(*urns[entity["urn"]])


@contextlib.contextmanager
def following(folder: Path, kill_s: float | None) -> Iterator[list[int]]:
    """Run a drain that follows the spool; yield how often it was started."""
    starts, end = [0], threading.Event()

    def follow() -> None:
        while not end.is_set():
            starts[0] += 1
            with (folder / "drain.log").open("ab") as log:
                drain = subprocess.Popen(
                    [sys.executable, "-m", "mlcat_ingest", "hooks", "drain", "--follow"],
                    env={**os.environ, "MLCAT_RECIPE": str(folder / "recipe.yml")},
                    stderr=log,
                )
            end.wait(kill_s)
            drain.kill()
            drain.wait()

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield starts
    finally:
        end.set()
        thread.join()


def until(happened: Any, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moves", type=int, default=1_000)
    parser.add_argument("--kill", type=float, metavar="SECONDS")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder, moves, end = Path(name), Moves(), threading.Event()
        recipe, spool = folder / "recipe.yml", folder / ".mlcat" / "spool" / "new"
        ports = free_port(), free_port()
        mlflow, catalog = (f"http://127.0.0.1:{port}" for port in ports)
        recipe.write_text(RECIPE.format(mlflow=mlflow, catalog=catalog))
        python = (sys.executable, "-m")
        serve_mlflow = [
            *(*python, "mlflow", "server", "--app-name", "mlcat", "--port", str(ports[0])),
            *("--workers", "1", "--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"),
        ]
        serve_catalog = [
            *(*python, "mlcat_ingest", "catalog", "serve", "--port", str(ports[1])),
            *("--db", str(folder / "catalog.db")),
        ]
        env = {
            "MLCAT_RECIPE": str(recipe),
            "MLCAT_HOOK_SEND": "0",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }
        with (
            serving(serve_mlflow, mlflow, env=env, log=folder / "mlflow.log"),
            serving(serve_catalog, catalog, log=folder / "catalog.log"),
            following(folder, chosen.kill) as starts,
            ThreadPoolExecutor(CLIENTS + 1) as pool,
        ):
            prepare(mlflow)
            until(lambda: spool.is_dir() and not any(spool.iterdir()), PATIENCE_S)
            watcher = pool.submit(watch, catalog, moves, end)
            began = time.perf_counter()
            count = chosen.moves // MODELS
            movers = [
                pool.submit(move, mlflow, moves, range(first, MODELS, CLIENTS), count)
                for first in range(CLIENTS)
            ]
            for mover in movers:
                mover.result()
            took_s = time.perf_counter() - began
            until(lambda: not moves.lost, PATIENCE_S)
            end.set()
            watcher.result()
        seen = sorted(one for took in moves.took for one in took)
        if not seen:
            raise RuntimeError((folder / "drain.log").read_text()[-3000:])
        rate, killed = len(moves.calls) / took_s, starts[0] - 1
        hundredths = statistics.quantiles(seen, n=100)
        print(f"{len(moves.calls):,} moves in {took_s:.1f} s, {rate:.0f} a second")
        print(f"a call takes {1_000 * statistics.median(moves.calls):.0f} ms in the median")
        print(
            f"from the call to the catalog: p50 {hundredths[49]:.2f} s, p99 {hundredths[98]:.2f} s,"
            f" longest {seen[-1]:.2f} s"
        )
        print(f"{moves.lost} lost, with {killed} drains killed")


if __name__ == "__main__":
    main()
