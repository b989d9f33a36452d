"""Feature stores: a Feast registry of many views, ingested into a service that only counts.

    python tests/benchmarks/bench_features.py --views 5000 --features 20

Prints a row for each round: wall, CPU and peak memory of our process, and the requests and
proposals that arrived.
"""

import argparse
import json
import sys
import tempfile
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.measure import Cost, run, serving
from support.feast_store import write_registry
from support.ports import free_port

HERE = Path(__file__).parent


def ingest(folder: Path, registry: Path) -> tuple[Cost, dict[str, int]]:
    """Run one ingest with a state of its own; return its cost, and what arrived."""
    url = f"http://127.0.0.1:{free_port()}"
    recipe = folder / "recipe.yml"
    recipe.write_text(
        f"name: benchmark\n"
        f"source:\n  type: feast\n  config: {{registry: '{registry}'}}\n"
        f"sink:\n  type: rest\n  config: {{server: '{url}', token: ''}}\n"
        f"limits: {{max_new_entities: 10000000}}\n"
    )
    counting = [sys.executable, str(HERE / "counting_server.py"), "--port", url.rpartition(":")[2]]
    with serving(counting, url, health="/config", log=folder / "counting.log") as server:
        cost = run([sys.executable, "-m", "mlcat_ingest", "-q", str(recipe)], server=server)
        with urllib.request.urlopen(f"{url}/counts") as reply:
            counts: dict[str, int] = json.load(reply)
    return cost, counts


def main() -> None:
    """Write the registry, run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--views", type=int, default=5_000)
    parser.add_argument("--features", type=int, default=20, help="in each view")
    parser.add_argument("--rounds", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        registry = Path(name) / "registry.db"
        write_registry(registry, views=chosen.views, features=chosen.features)
        size_mib = registry.stat().st_size / 2**20
        print(f"{chosen.views:,} views of {chosen.features} features, {size_mib:.1f} MiB\n")
        print("| round | wall s | CPU s | peak MiB | requests | proposals |")
        print("|---|---|---|---|---|---|")
        for number in range(chosen.rounds):
            folder = Path(name) / str(number)
            folder.mkdir()
            cost, counts = ingest(folder, registry)
            print(
                f"| {number + 1} | {cost.wall_s:.1f} | {cost.cpu_s:.1f} | {cost.peak_mib:.0f} "
                f"| {counts['requests']:,} | {counts['proposals']:,} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
