"""The emitter alone: proposals that are ready, sent in batches to a service that only counts.

    python tests/benchmarks/bench_emitter.py --proposals 60000

A small aspect is a feature with a description of eight words, a model a run with 20 parameters and
20 metrics. Prints the best of several rounds, with the CPU of this process alone.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.catalog_entities import run, small
from benchmarks.measure import serving
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.net.session import HttpOptions
from support.ports import free_port

HERE = Path(__file__).parent
KINDS = {"small aspects": small, "models with 20 params and 20 metrics": run}


def send(client: CatalogClient, batches: Sequence[Sequence[Proposal]], connections: int) -> None:
    """Send `batches` over so many connections at once."""
    with ThreadPoolExecutor(connections) as pool:
        for refused in pool.map(client.write, batches):
            assert not refused


def measure(
    url: str, batches: Sequence[Sequence[Proposal]], connections: int
) -> tuple[float, float]:
    """Return the seconds and the seconds of CPU that sending `batches` takes."""
    client = CatalogClient(url, "", options=HttpOptions(connections=connections))
    try:
        send(client, batches[:1], 1)
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        send(client, batches, connections)
        return time.perf_counter() - wall_s, time.process_time() - cpu_s
    finally:
        client.close()


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--proposals", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=2)
    chosen = parser.parse_args()
    port = free_port()
    counting = [sys.executable, str(HERE / "counting_server.py"), "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    print("| what | proposals a second | CPU of each |\n|---|---|---|")
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        serving(counting, url, health="/config", log=Path(name) / "counting.log"),
    ):
        for kind, make in KINDS.items():
            proposals = [Proposal(*make(number)) for number in range(chosen.proposals)]
            batches = [
                proposals[start : start + MAX_REQUEST_ITEMS]
                for start in range(0, len(proposals), MAX_REQUEST_ITEMS)
            ]
            costs = [measure(url, batches, chosen.connections) for _ in range(chosen.rounds)]
            wall_s, cpu_s = (min(column) / len(proposals) for column in zip(*costs, strict=True))
            print(f"| {kind} | {1 / wall_s:,.0f} | {cpu_s * 1000:.3f} ms |", flush=True)


if __name__ == "__main__":
    main()
