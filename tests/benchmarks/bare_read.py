"""The yardstick: read every run of an MLflow server page by page, parse it, keep nothing.

    python tests/benchmarks/bare_read.py http://127.0.0.1:5000 --connections 2

With several connections the experiments are dealt out to them. Prints the number of runs.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry

PAGE = 500


def open_session() -> requests.Session:
    session = requests.Session()
    # The server may close an idle connection in the moment in which the next page is asked for.
    session.mount("http://", HTTPAdapter(max_retries=Retry(3, allowed_methods=None)))
    return session


def listing(session: requests.Session, url: str, body: dict[str, object]) -> dict[str, Any]:
    reply = session.post(url, json=body, timeout=300)
    reply.raise_for_status()
    page: dict[str, Any] = orjson.loads(reply.content)
    return page


def read_runs(server: str, experiments: list[str]) -> int:
    session = open_session()
    count = 0
    token = ""
    while True:
        body: dict[str, object] = {
            "experiment_ids": experiments,
            "max_results": PAGE,
            "run_view_type": "ALL",
        }
        if token:
            body["page_token"] = token
        page = listing(session, f"{server}/api/2.0/mlflow/runs/search", body)
        count += len(page.get("runs", []))
        token = page.get("next_page_token", "")
        if not token:
            return count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("--connections", type=int, default=1)
    chosen = parser.parse_args()
    page = listing(
        open_session(),
        f"{chosen.server}/api/2.0/mlflow/experiments/search",
        {"max_results": PAGE, "view_type": "ALL"},
    )
    ids = [experiment["experiment_id"] for experiment in page["experiments"]]
    shares = [ids[start :: chosen.connections] for start in range(chosen.connections)]
    with ThreadPoolExecutor(chosen.connections) as pool:
        counts = pool.map(lambda share: read_runs(chosen.server, share), filter(None, shares))
        print(sum(counts))


if __name__ == "__main__":
    main()
