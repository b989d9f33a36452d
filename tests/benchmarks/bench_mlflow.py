"""The budgets of the design, measured: what an ingest costs beside a bare read, and the catalog.

    python tests/benchmarks/bench_mlflow.py > tests/benchmarks/measured.txt
    python tests/benchmarks/bench_mlflow.py --runs 300 --rounds 1 --parts http,sqlite

Prints a table for each part, with its budget and whether that is met. Stores hold `--runs` runs of
20 parameters and 20 metrics, plain ones if their part has no other name (`generate.py` has what a
lifelike store has); the sizes of the other stores are in proportion. In a round every
contender reads the same store, one after the other, in a new process with a state of its own. The
figures are medians of the rounds. `start` is a pass in which nothing has changed; it is taken from
the passes of ours that are compared, and that of a yardstick from the yardstick.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.generate import STORE_FILE, Kind, generate, generate_in_postgresql
from benchmarks.measure import Cost, Figure, Server, run, serving
from benchmarks.server_units import UNITS
from support.ports import free_port

HERE = Path(__file__).parent
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DATAHUB_TELEMETRY_ENABLED": "false",
    # Seven processes for jobs of a server, of which there are none.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}
TIMES = "×"  # noqa: RUF001 - times, as the budgets say it
PAGE = 500
CONNECTIONS = 3
DELAY_MS = 500
LISTINGS = ("experiments", "registered models", "versions", "logged models")
"""What is listed besides runs; each listing here has one page."""

Costs = dict[str, Cost]
Contender = Callable[[Path, Server], Costs]
"""Works in a folder on a store; returns what each of its passes cost, by name."""


class Ours:
    """Our ingest of one store into one catalog, pass after pass."""

    def __init__(
        self, folder: Path, source: str, catalog: str, more: str = "", connections: int = 4
    ) -> None:
        recipe = folder / "recipe.yml"
        self._report = folder / "report.json"
        self.command = [sys.executable, "-m", "mlcat_ingest", "-q", str(recipe)]
        recipe.write_text(
            f"name: benchmark\nsource: {source}\n"
            f"sink: {{type: rest, config: {{server: '{catalog}', token: '', "
            f"connections: {connections}}}}}\n"
            f"limits: {{max_new_entities: 10000000}}\n{more}"
        )

    def ingest(self, store: Server, *options: str) -> Cost:
        command = [*self.command, "--report", str(self._report), *options]
        cost = run(command, server=store, env=QUIET)
        report = json.loads(self._report.read_text())
        # A test holds that the server saw as many.
        return cost.with_counts(source_requests=report["source_requests"])


def mlflow(store: Server, more: str = "") -> str:
    """Return the source of a recipe."""
    where = f"tracking_uri: '{store.url}', connections: {CONNECTIONS}"
    return f"{{type: mlflow, config: {{{where}{more}}}}}"


@contextmanager
def embedded(folder: Path) -> Iterator[str]:
    """Give the address of a new embedded catalog."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlcat_ingest", "catalog", "serve"]
    command += ["--db", str(folder / "catalog.db"), "--port", str(port)]
    with serving(command, url, log=folder / "catalog.log"):
        yield url


@contextmanager
def counting(folder: Path, *options: str) -> Iterator[str]:
    """Give the address of a new service that only counts."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, str(HERE / "counting_server.py"), "--port", str(port), *options]
    with serving(command, url, health="/config", log=folder / "counting.log"):
        yield url


def counted(cost: Cost, catalog: str) -> Cost:
    """Return a cost with what the counting server has seen so far."""
    with urllib.request.urlopen(f"{catalog}/counts") as reply:
        return cost.with_counts(**json.load(reply))


def into(kind: str, *passes: str, more: str = "") -> Contender:
    """Return ingests of ours into a new catalog: the `first`, one `again`, `full` ones."""
    serve = {"counting": counting, "embedded": embedded}[kind]

    def contend(folder: Path, store: Server) -> Costs:
        costs = {}
        with serve(folder) as catalog:
            ours = Ours(folder, mlflow(store, more), catalog)
            for name in passes:
                cost = ours.ingest(store, *(["--full"] if name.startswith("full") else []))
                costs[f"{kind}, {name}"] = counted(cost, catalog) if kind == "counting" else cost
        return costs

    return contend


# Another service may drop parts of what it acknowledges: the first full pass after a write has to
# compare values.
OURS = into("counting", "first", "full 1", "full"), into("embedded", "first", "again", "full")


def datahub(venv: Path) -> Contender:
    """Return DataHub's own mlflow source, from a virtual environment that has it."""

    def contend(folder: Path, store: Server) -> Costs:
        path = folder / "datahub.yml"
        with counting(folder) as catalog:
            path.write_text(
                f"source:\n  type: mlflow\n  config: {{tracking_uri: '{store.url}'}}\n"
                f"sink:\n  type: datahub-rest\n  config: {{server: '{catalog}'}}\n"
            )
            command = [str(venv / "bin" / "datahub"), "ingest", "-c", str(path)]
            cost = run(command, server=store, env={**QUIET, "HOME": str(folder)})
            # It does not wait for the server, which counts all that came.
            return {"datahub": counted(cost, catalog)}

    return contend


def yardstick(script: str, *options: str) -> Contender:
    """Return a bare read, without what its start takes."""

    def contend(_: Path, store: Server) -> Costs:
        command = [sys.executable, str(HERE / script), store.url, *options]
        start = run([*command, "--help"], server=store)
        return {"bare": run(command, server=store) - start}

    return contend


def posted(folder: Path, store: Server) -> Costs:
    """Record the batches of an ingest, and post them to a new catalog after a bare read."""
    batches = folder / "batches.jsonl"
    # Without the report, which is written over what was read of it: another catalog would refuse.
    with counting(folder, "--record", str(batches)) as catalog:
        Ours(folder, mlflow(store), catalog, "report_to_catalog: false\n").ingest(store)
    with embedded(folder) as catalog:
        post = yardstick("bare_sql.py", "--post", str(batches), "--to", catalog)
        return {"posted": post(folder, store)["bare"]}


class Bench:
    """What the command line asks for, and a folder for stores and catalogs."""

    def __init__(self, folder: Path, chosen: argparse.Namespace) -> None:
        self.folder = folder
        self.runs: int = chosen.runs
        self.venv: Path = chosen.datahub_venv
        self.rounds: int = chosen.rounds
        self._settle: int = chosen.settle
        self._workers: int = chosen.workers

    @contextmanager
    def stored(self, kind: Kind = "plain", **sizes: int) -> Iterator[Server]:
        """Give an SQLite store; equal ones are made once."""
        name = "-".join([kind, *(f"{key}{count}" for key, count in sizes.items())])
        folder = self.folder / name
        made = folder / STORE_FILE
        path = made if made.exists() else generate(folder, kind=kind, **sizes)
        yield Server(f"sqlite:///{path}", 0)

    @contextmanager
    def served(self, kind: Kind = "plain", **sizes: int) -> Iterator[Server]:
        """Serve such a store by MLflow."""
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "mlflow", "server", "--port", str(port)]
        command += ["--workers", str(self._workers)]
        env = {**QUIET, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        with self.stored(kind, **sizes) as store:
            command += ["--backend-store-uri", store.url]
            with serving(command, url, env=env, log=self.folder / "mlflow.log") as server:
                server.settle(self._settle)
                yield server

    @contextmanager
    def in_postgresql(self, kind: Kind = "plain") -> Iterator[Server]:
        """Give such a store in a database of its own."""
        from support.services import postgres_database

        with postgres_database() as url:
            generate_in_postgresql(url, runs=self.runs, kind=kind)
            yield Server(url, 0)

    def compete(self, store: Server, *contenders: Contender, rounds: int | None = None) -> Costs:
        """Run every contender once a round, in turn; return the medians of each pass."""
        rows: dict[str, list[Cost]] = {}
        for number in range(rounds or self.rounds):
            for contender in contenders:
                with tempfile.TemporaryDirectory(dir=self.folder) as name:
                    for key, cost in contender(Path(name), store).items():
                        rows.setdefault(key, []).append(cost)
                        print(f"round {number + 1}: {key}: {cost.wall_s:.1f} s", file=sys.stderr)
        return {key: _median(costs) for key, costs in rows.items()}


def _median(costs: Sequence[Cost]) -> Cost:
    names = ("wall_s", "cpu_s", "peak_mib", "server_cpu_s")
    middle = {name: statistics.median(getattr(cost, name) for cost in costs) for name in names}
    return replace(costs[-1], **middle)


def times(name: str, cost: float, other: float, budget: str) -> Figure:
    """Return a cost as a multiple of another one; less than a tick of the clock counts as that."""
    return Figure(name, cost / max(other, 0.01), TIMES, budget)


def http(bench: Bench, kind: Kind = "plain") -> Iterator[Figure]:
    """The main job from an MLflow server."""
    with bench.served(kind, runs=bench.runs) as store:
        bare = yardstick("bare_read.py", "--connections", str(CONNECTIONS))
        seen = bench.compete(store, bare, *OURS)
        named = bench.compete(store, into("counting", "first", more=", instance: here"), rounds=1)
    start, read = seen["embedded, again"], seen["bare"]
    yield Figure("start of a run that changes nothing, CPU", start.cpu_s, "s", "≤ 0.6")
    for target, budget in (("counting", "≤ 1.15"), ("embedded", "≤ 1.4")):
        cost = seen[f"{target}, first"] - start
        name = f"into the {target} catalog"
        yield times(f"{name}, time to the bare read", cost.wall_s, read.wall_s, budget)
        yield times(f"{name}, CPU to MLflow's", cost.cpu_s, cost.server_cpu_s, "≤ 0.10")
        yield times(f"{name}, MLflow's CPU", cost.server_cpu_s, read.server_cpu_s, "≤ 1.1")
    if kind == "lifelike":
        cpu_s = (seen["counting, first"] - start).cpu_s
        yield Figure(
            "into the counting catalog, CPU a run", 1_000 * cpu_s / bench.runs, "ms", "≤ 0.40"
        )
    for target, budget in (("embedded", "≤ 2.5"), ("counting", "≤ 3.5")):
        cost = seen[f"{target}, full"] - start
        yield times(f"{_full(target)}, time to the bare read", cost.wall_s, read.wall_s, budget)
    cost = seen["counting, full 1"] - start
    yield times(f"{_VALUES}, time to the bare read", cost.wall_s, read.wall_s, "")
    yield Figure("peak memory", seen["embedded, first"].peak_mib, "MiB", "≤ 160")
    yield from _work(bench.runs, seen["counting, first"], named["counting, first"])


def lifelike_http(bench: Bench) -> Iterator[Figure]:
    """The main job from an MLflow server with a lifelike store."""
    yield from http(bench, "lifelike")


_VALUES = "the first full pass after an ingest, the counting catalog"


def _full(target: str) -> str:
    return f"full pass, nothing changed, the {target} catalog"


def _work(runs: int, first: Cost, named: Cost) -> Iterator[Figure]:
    """Yield what an ingest leaves to the servers to do, without an instance and with one."""
    plain = first.counts
    pages = -(-runs // PAGE) + len(LISTINGS)
    yield Figure("requests to MLflow", plain["source_requests"], "", f"≤ {pages + 4}")
    yield Figure("proposals a run", plain["proposals"] / runs, "", "≤ 4")
    yield Figure("proposals a run, with an instance", named.counts["proposals"] / runs, "", "≤ 5")
    yield Figure("requests to the catalog, 1,000 runs", 1_000 * plain["requests"] / runs, "")


def beside_datahub(bench: Bench) -> Iterator[Figure]:
    """A fifth of the runs by DataHub's own source, start included."""
    with bench.served(runs=bench.runs // 5) as store:
        contenders = into("counting", "first"), datahub(bench.venv)
        seen = bench.compete(store, *contenders, rounds=1)
    ours, theirs = seen["counting, first"], seen["datahub"]
    yield times("faster than `datahub ingest`", theirs.wall_s, ours.wall_s, "≥ 8")
    yield times("less CPU than `datahub ingest`", theirs.cpu_s, ours.cpu_s, "≥ 25")


def server_units(bench: Bench) -> Iterator[Figure]:
    """What DataHub's server would do for a lifelike store, a tenth of the size; nothing is timed.

    Both end when all is stored.
    """
    with bench.stored("lifelike", runs=bench.runs // 10) as store:
        contenders = into("counting", "first", "again"), datahub(bench.venv)
        seen = bench.compete(store, *contenders, rounds=1)
    ours, theirs = seen["counting, first"].counts, seen["datahub"].counts
    again = seen["counting, again"].counts
    for unit, budget in zip(UNITS, ("≤ 0.55", "≤ 0.33", "≤ 0.35", "", ""), strict=True):
        yield Figure(f"{unit}, a run", ours[unit] / (bench.runs // 10), "")
        yield Figure(f"{unit}, a run by `datahub ingest`", theirs[unit] / (bench.runs // 10), "")
        yield times(f"{unit}, to those of `datahub ingest`", ours[unit], theirs[unit], budget)
        yield Figure(f"{unit}, all of another pass", again[unit] - ours[unit], "")


def sqlite(bench: Bench) -> Iterator[Figure]:
    """The main job from MLflow's database, in SQLite."""
    with bench.stored(runs=bench.runs) as store:
        seen = bench.compete(store, yardstick("bare_sql.py"), *OURS, posted)
    yield from _from_database(bench.runs, seen, "plain")
    catalog = seen["posted"]
    yield Figure(
        "the embedded catalog alone, requests as recorded",
        bench.runs / (catalog.wall_s - seen["bare"].wall_s),
        "runs a second",
        "≥ 1,600",
    )


def lifelike_sqlite(bench: Bench) -> Iterator[Figure]:
    """A lifelike store in SQLite; all that is shown is CPU and memory."""
    with bench.stored("lifelike", runs=bench.runs) as store:
        seen = bench.compete(store, yardstick("bare_sql.py"), *OURS)
    yield from _from_database(bench.runs, seen, "lifelike")


def postgresql(bench: Bench, kind: Kind = "plain") -> Iterator[Figure]:
    """The same from PostgreSQL."""
    with bench.in_postgresql(kind) as store:
        seen = bench.compete(store, yardstick("bare_sql.py"), *OURS)
    yield from _from_database(bench.runs, seen, kind)


def lifelike_postgresql(bench: Bench) -> Iterator[Figure]:
    """A lifelike store in PostgreSQL."""
    yield from postgresql(bench, "lifelike")


def _from_database(runs: int, seen: Costs, kind: Kind) -> Iterator[Figure]:
    ratio, each = ("≤ 15", "≤ 0.35") if kind == "lifelike" else ("≤ 4", "≤ 0.25")
    start, read = seen["embedded, again"], seen["bare"]
    yield Figure("start of a run that changes nothing, CPU", start.cpu_s, "s", "≤ 0.6")
    cpu_s = (seen["counting, first"] - start).cpu_s
    yield times("into the counting catalog, CPU to the bare read", cpu_s, read.cpu_s, ratio)
    yield Figure("into the counting catalog, CPU a run", 1_000 * cpu_s / runs, "ms", each)
    for target, budget in (("embedded", "≤ 2.5"), ("counting", "≤ 3.5")):
        cost = seen[f"{target}, full"] - start
        yield times(f"{_full(target)}, CPU to the bare read", cost.cpu_s, read.cpu_s, budget)
    cost = seen["counting, full 1"] - start
    yield times(f"{_VALUES}, CPU to the bare read", cost.cpu_s, read.cpu_s, "")
    yield Figure("peak memory", seen["embedded, first"].peak_mib, "MiB", "≤ 100")


def large(bench: Bench) -> Iterator[Figure]:
    """Ten times the runs: the next pass, in which nothing has changed, and memory."""
    for name, most_s in (("HTTP", 1.2), ("SQLite", 0.8)):
        passes = []
        for runs in (bench.runs, 10 * bench.runs):
            serve = bench.served if name == "HTTP" else bench.stored
            with serve(runs=runs) as store:
                contender = into("embedded", "first", "again")
                passes.append(bench.compete(store, contender, rounds=1))
        less, first = (seen["embedded, first"].peak_mib for seen in passes)
        again = passes[-1]["embedded, again"]
        yield Figure(f"{name}, nothing changed", again.wall_s, "s", f"≤ {most_s}")
        if name == "HTTP":
            asked = again.counts["source_requests"]
            yield Figure("HTTP, nothing changed, requests to MLflow", asked, "", "≤ 10")
        yield times(f"{name}, peak memory to that of a tenth", first, less, "≤ 1.1")


def wide(bench: Bench) -> Iterator[Figure]:
    """Runs of 800 parameters and 800 metrics."""
    for name, most_mib in (("HTTP", 160), ("SQLite", 100)):
        serve = bench.served if name == "HTTP" else bench.stored
        with serve(runs=bench.runs // 5, params=800, metrics=800) as store:
            (cost,) = bench.compete(store, into("counting", "first"), rounds=1).values()
        yield Figure(f"{name}, peak memory", cost.peak_mib, "MiB", f"≤ {most_mib}")


def distant(bench: Bench) -> Iterator[Figure]:
    """The main job into a catalog that answers after half a second, over more connections."""
    with bench.stored(runs=bench.runs) as store:
        for count in (1, 2, 3, 4, 8):
            with (
                tempfile.TemporaryDirectory(dir=bench.folder) as name,
                counting(Path(name), f"--delay-ms={DELAY_MS}") as catalog,
            ):
                cost = Ours(Path(name), mlflow(store), catalog, connections=count).ingest(store)
            yield Figure(f"time, connections: {count}", cost.wall_s, "s")
            yield Figure(f"CPU, connections: {count}", cost.cpu_s, "s")
            yield Figure(f"peak memory, connections: {count}", cost.peak_mib, "MiB")


def profile(bench: Bench) -> Iterator[Figure]:
    """The share of each stage of the CPU of the threads of a first ingest of a lifelike store."""
    with (
        tempfile.TemporaryDirectory(dir=bench.folder) as name,
        counting(Path(name)) as catalog,
        bench.stored("lifelike", runs=bench.runs) as store,
    ):
        ours, shares = Ours(Path(name), mlflow(store), catalog), Path(name) / "shares.json"
        python, *_, recipe = ours.command
        run([python, str(HERE / "profiled.py"), str(shares), recipe], server=store, env=QUIET)
        for stage, share in json.loads(shares.read_text()).items():
            yield Figure(stage, 100 * share, "%")


def versions(bench: Bench) -> Iterator[Figure]:
    """The versions of one registered model, as many as runs."""
    count, contender = bench.runs, into("counting", "first")
    with bench.stored(runs=count) as without, bench.stored(runs=count, versions=count) as store:
        (runs,) = bench.compete(without, contender, rounds=1).values()
        (first,) = bench.compete(store, contender, rounds=1).values()
    # In requests of their own, they would be as many as they are more.
    writes = first.counts["writes"] - runs.counts["writes"]
    yield Figure("versions of one model", count, "")
    yield Figure("write requests, 10,000 versions", 10_000 * writes / count, "", "≤ 120")
    yield Figure("CPU a version", 1_000 * (first.cpu_s - runs.cpu_s) / count, "ms", "≤ 0.6")
    for unit in ("rows", "messages", "documents"):
        more = first.counts[unit] - runs.counts[unit]
        yield Figure(f"{unit} of DataHub's server, a version", more / count, "")


def features(bench: Bench) -> Iterator[Figure]:
    """A Feast registry of half as many views as runs, with 20 features each."""
    views, registry = bench.runs // 2, bench.folder / "registry.db"
    write = "import sys; from pathlib import Path; from support.feast_store import write_registry; "
    write += f"write_registry(Path(sys.argv[1]), views={views}, features=20)"
    env = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    # In another process: this one has to stay small, see `Cost`.
    subprocess.run([sys.executable, "-c", write, str(registry)], check=True, env=env)
    with tempfile.TemporaryDirectory(dir=bench.folder) as name, counting(Path(name)) as catalog:
        source = f"{{type: feast, config: {{registry: '{registry}'}}}}"
        ours = Ours(Path(name), source, catalog)
        cost = counted(ours.ingest(Server("", 0)), catalog)
    entities = 21 * views
    yield Figure("entities", entities, "")
    yield Figure("CPU of an entity", 1_000 * cost.cpu_s / entities, "ms")
    yield Figure("peak memory", cost.peak_mib, "MiB")
    yield Figure("requests to the catalog", cost.counts["requests"], "")
    yield Figure("proposals", cost.counts["proposals"], "")


def catalog(bench: Bench) -> Iterator[str]:
    """The embedded catalog alone."""
    sizes = {"aspects": 2, "models": 1, "entities": 20, "requests": 0.2}
    options = [f"--{key}={max(20, int(share * bench.runs))}" for key, share in sizes.items()]
    parts = "writes,reads,group,full,pages"
    yield from _printed("bench_catalog.py", *options, f"--rounds={bench.rounds}", "--parts", parts)


def install(_: Bench) -> Iterator[str]:
    """What an installation brings."""
    yield from _printed("bench_install.py")


def _printed(script: str, *options: str) -> Iterator[str]:
    command = [sys.executable, str(HERE / script), *options]
    yield from subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()


PARTS: Mapping[str, Callable[[Bench], Iterator[Figure] | Iterator[str]]] = {
    "server_units": server_units,
    "lifelike_http": lifelike_http,
    "lifelike_sqlite": lifelike_sqlite,
    "lifelike_postgresql": lifelike_postgresql,
    "http": http,
    "datahub": beside_datahub,
    "sqlite": sqlite,
    "postgresql": postgresql,
    "large": large,
    "wide": wide,
    "distant": distant,
    "profile": profile,
    "versions": versions,
    "features": features,
    "catalog": catalog,
    "install": install,
}


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return what `arguments` ask for, by default those of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated, of these")
    parser.add_argument(
        "--settle", type=int, default=60, help="seconds for MLflow to start, at most"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes of MLflow's server")
    parser.add_argument(
        "--datahub-venv",
        type=Path,
        default=sys.prefix,
        help="an environment with acryl-datahub and mlflow",
    )
    return parser.parse_args(arguments)


def main() -> None:
    """Run the parts that the command line names and print their tables."""
    chosen = options()
    print("## all\n| | |\n|---|---|")
    print(f"| runs, rounds | {chosen.runs:,}, {chosen.rounds} |")
    print(f"| Python, MLflow | {platform.python_version()}, {version('mlflow')} |")
    print(f"| processors, load before | {os.cpu_count()}, {os.getloadavg()[0]:.1f} |")
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        bench = Bench(folder, chosen)
        for part in chosen.parts.split(","):
            print(f"\n## {part}\n| | measured | budget | met |\n|---|---|---|---|", flush=True)
            for row in PARTS[part](bench):
                print(row, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
