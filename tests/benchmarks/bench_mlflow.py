"""One interleaved run: our ingest beside a bare read and, if given, `datahub ingest`.

    python tests/benchmarks/bench_mlflow.py --runs 10000 --rounds 3
    python tests/benchmarks/bench_mlflow.py --runs 10000 --datahub-venv /path/to/venv
    python tests/benchmarks/bench_mlflow.py --runs 10000 --database postgresql
    python tests/benchmarks/bench_mlflow.py --runs 2000 --width 800

Over HTTP every contender reads the same `mlflow server` (SQLite). With `--database`
the same tables are read by SQL instead, beside a bare read of their rows, alone and with the
batches of an ingest posted after it. Ours writes once into the embedded catalog and once into a
service that only counts; `datahub ingest` into the latter. What ours costs for one run alone is
what starting costs. Prints medians: wall, CPU and peak memory of the contender, CPU of the MLflow
server or of PostgreSQL.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.generate import generate, generate_in_postgresql
from benchmarks.measure import Cost, Server, run, serving
from support.ports import free_port

HERE = Path(__file__).parent
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DATAHUB_TELEMETRY_ENABLED": "false",
    # Seven processes for jobs of a server, of which there are none.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}

Contender = Callable[[Path, Server], Cost]
Write = Callable[[Path, Server, str], Cost]
"""Reads a store and writes to the address of a catalog."""


def recipe(folder: Path, mlflow: str, server: str, config: str, more: str) -> Path:
    """Write a recipe of ours, the source with `config`, with lines of `more`; return its path."""
    path = folder / "recipe.yml"
    path.write_text(
        f"name: benchmark\n"
        f"source:\n  type: mlflow\n"
        f"  config: {{tracking_uri: '{mlflow}', {config}}}\n"
        f"sink:\n  type: rest\n  config: {{server: '{server}'}}\n"
        f"limits: {{max_new_entities: 1000000}}\n{more}"
    )
    return path


def ours(config: str, more: str = "", *options: str) -> Write:
    """Return one ingest of ours, its recipe with these lines, the command with `options`."""

    def ingest(folder: Path, mlflow: Server, catalog: str) -> Cost:
        path = recipe(folder, mlflow.url, catalog, config, more)
        command = [sys.executable, "-m", "mlcat_ingest", "-q", str(path), *options]
        return run(command, server=mlflow, env=QUIET)

    return ingest


def after(write: Write, second: Write) -> Write:
    """Return `second`, after a `write` that is not measured: nothing has changed."""

    def both(folder: Path, mlflow: Server, catalog: str) -> Cost:
        write(folder, mlflow, catalog)
        return second(folder, mlflow, catalog)

    return both


def into_embedded(write: Write) -> Contender:
    """Return a contender that writes into a fresh embedded catalog."""

    def measured(folder: Path, mlflow: Server) -> Cost:
        port = free_port()
        command = [sys.executable, "-m", "mlcat_ingest", "catalog", "serve"]
        command += ["--db", str(folder / "catalog.db"), "--port", str(port)]
        with serving(command, f"http://127.0.0.1:{port}", log=folder / "catalog.log") as catalog:
            return write(folder, mlflow, catalog.url)

    return measured


def into_counting(write: Write, *options: str) -> Contender:
    """Return a contender that writes into a fresh service that only counts."""

    def measured(folder: Path, mlflow: Server) -> Cost:
        port = free_port()
        command = [sys.executable, str(HERE / "counting_server.py"), "--port", str(port), *options]
        url = f"http://127.0.0.1:{port}"
        with serving(command, url, health="/config", log=folder / "counting.log"):
            return write(folder, mlflow, url)

    return measured


def script(name: str, *options: str) -> Contender:
    """Return a contender: a script beside this one, given the address of the store."""
    return lambda _, mlflow: run(
        [sys.executable, str(HERE / name), mlflow.url, *options], server=mlflow
    )


def bare_and_posting(batches: Path) -> Write:
    """Return a bare read of the tables, and the posting of batches that are ready."""

    def write(_: Path, mlflow: Server, catalog: str) -> Cost:
        command = [sys.executable, str(HERE / "bare_sql.py"), mlflow.url]
        return run([*command, "--post", str(batches), "--to", catalog], server=mlflow)

    return write


def datahub(venv: Path) -> Write:
    """Return DataHub's own mlflow source, from a virtual environment that has it."""

    def contend(folder: Path, mlflow: Server, catalog: str) -> Cost:
        path = folder / "datahub.yml"
        path.write_text(
            f"source:\n  type: mlflow\n  config: {{tracking_uri: '{mlflow.url}'}}\n"
            f"sink:\n  type: datahub-rest\n  config: {{server: '{catalog}'}}\n"
        )
        command = [str(venv / "bin" / "datahub"), "ingest", "-c", str(path)]
        return run(command, server=mlflow, env={**QUIET, "HOME": str(folder)})

    return contend


def _generated(folder: Path, chosen: argparse.Namespace) -> Path:
    width = chosen.width
    return generate(folder / "store", runs=chosen.runs, params=width, metrics=width)


@contextmanager
def over_http(folder: Path, chosen: argparse.Namespace) -> Iterator[Server]:
    """Give an MLflow server over a store of the runs that are chosen."""
    database = _generated(folder, chosen)
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port)]
    command += ["--workers", str(chosen.workers)]
    command += ["--backend-store-uri", f"sqlite:///{database}"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    url = f"http://127.0.0.1:{port}"
    with serving(command, url, env={**QUIET, "PATH": path}, log=folder / "mlflow.log") as mlflow:
        mlflow.settle(chosen.settle)
        yield mlflow


@contextmanager
def in_sqlite(folder: Path, chosen: argparse.Namespace) -> Iterator[Server]:
    """Give the address of an SQLite store of such runs."""
    yield Server(f"sqlite:///{_generated(folder, chosen)}", 0)


@contextmanager
def in_postgresql(_folder: Path, chosen: argparse.Namespace) -> Iterator[Server]:
    """Give the address of such a store on this machine's PostgreSQL, with its first process."""
    import psycopg

    from support.services import postgres_database

    with postgres_database() as url:
        generate_in_postgresql(url, runs=chosen.runs, params=chosen.width, metrics=chosen.width)
        with psycopg.connect(url.replace("+psycopg", "")) as connection:
            backend = connection.info.backend_pid
        status = Path(f"/proc/{backend}/status")
        parent = status.read_text().partition("PPid:")[2].split()[0] if status.exists() else 0
        yield Server(url, int(parent))


STORES: dict[str, Callable[[Path, argparse.Namespace], AbstractContextManager[Server]]] = {
    "http": over_http,
    "sqlite": in_sqlite,
    "postgresql": in_postgresql,
}


def contenders_for(chosen: argparse.Namespace, batches: Path) -> dict[str, Contender]:
    """Return who contends, by name."""
    config = f"connections: {chosen.connections}"
    ingest, full, one = ours(config), ours(config, "", "--full"), ours(f"{config}, limit: 1")
    contenders: dict[str, Contender] = {
        "mlcat-ingest, counting server": into_counting(ingest),
        "mlcat-ingest, embedded catalog": into_embedded(ingest),
        "the same again, nothing changed": into_embedded(after(ingest, ingest)),
        "mlcat-ingest, one run alone": into_counting(one),
    }
    if chosen.database:
        yardsticks: dict[str, Contender] = {
            "bare SQL read": script("bare_sql.py"),
            "our reader alone": script("read_database.py"),
            "bare SQL read, batches posted": into_embedded(bare_and_posting(batches)),
        }
        contenders["the same again, all of it read"] = into_embedded(after(ingest, full))
        return {**yardsticks, **contenders}
    if chosen.datahub_venv:
        contenders["datahub ingest, counting server"] = into_counting(datahub(chosen.datahub_venv))
    connections = ("--connections", str(chosen.connections))
    return {"bare read": script("bare_read.py", *connections), **contenders}


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument(
        "--width", type=int, default=20, help="parameters of each run, and its metrics"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="processes of the MLflow server")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], help="read it by SQL")
    parser.add_argument("--only", default="", help="contenders whose name has this in it")
    parser.add_argument(
        "--settle", type=int, default=60, help="seconds for MLflow to start, at most"
    )
    parser.add_argument("--datahub-venv", type=Path, help="a venv with acryl-datahub[mlflow]")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    batches = folder / "batches.jsonl"
    contenders = contenders_for(chosen, batches)
    contenders = {name: each for name, each in contenders.items() if chosen.only in name}
    try:
        with STORES[chosen.database or "http"](folder, chosen) as store:
            if "bare SQL read, batches posted" in contenders:
                # Without the report, which is written over what was read of it: another catalog
                # would refuse that.
                unreported = ours("connections: 1", "report_to_catalog: false\n")
                into_counting(unreported, "--record", str(batches))(folder, store)
            costs = compete(folder, contenders, store, rounds=chosen.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{chosen.runs:,} runs, {chosen.rounds} rounds, medians")
    show(costs)


def compete(
    folder: Path, contenders: dict[str, Contender], store: Server, *, rounds: int
) -> dict[str, list[Cost]]:
    """Run every contender once a round, in turn, and return what each cost."""
    costs: dict[str, list[Cost]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, contender in contenders.items():
            work = folder / f"{number}-{name.replace(' ', '-')}"
            work.mkdir()
            costs[name].append(contender(work, store))
            print(f"round {number + 1}: {name}: {costs[name][-1].wall_s:.1f} s", flush=True)
            shutil.rmtree(work)
    return costs


def show(costs: dict[str, list[Cost]]) -> None:
    """Print the medians as a table of Markdown."""
    print("| | wall s | CPU s | peak MiB | server CPU s |\n|---|---|---|---|---|")
    for name, rows in costs.items():
        wall_s, cpu_s, peak_mib, server_s = (
            statistics.median(getattr(row, field) for row in rows)
            for field in ("wall_s", "cpu_s", "peak_mib", "server_cpu_s")
        )
        print(f"| {name} | {wall_s:.1f} | {cpu_s:.2f} | {peak_mib:.0f} | {server_s:.1f} |")


if __name__ == "__main__":
    main()
