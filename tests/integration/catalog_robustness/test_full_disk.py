"""A disk that takes no more: writes say so, reads go on, and all is well once there is room."""

import json
import resource
from pathlib import Path
from urllib.parse import quote

import requests

from support.catalog_checks import assert_edges_agree, assert_search_agrees, assert_sound
from support.catalog_process import catalog_process
from support.catalog_store import model
from support.recorded_requests import proposal

BATCH = "/aspects?action=ingestProposalBatch"
PER_BATCH = 50


def write(url: str, name: str) -> requests.Response:
    proposals = [
        proposal(model(f"{name}-{at}"), "mlModelProperties", {"description": "word " * 400})
        for at in range(PER_BATCH)
    ]
    return requests.post(f"{url}{BATCH}", data=json.dumps({"proposals": proposals}), timeout=30)


def models(url: str) -> int:
    body = {"query": '{ search(input: {type: MLMODEL, query: "*", count: 0}) { total } }'}
    answer = requests.post(f"{url}/api/graphql", json=body, timeout=30)
    return int(answer.json()["data"]["search"]["total"])


def test_a_full_disk_is_reported_and_survived(tmp_path: Path) -> None:
    database = tmp_path / "catalog.db"
    with catalog_process(database) as catalog:
        assert write(catalog.url, "first").status_code == 200
        # No file of the server's may grow beyond what the database's log has by now.
        longest = database.with_name("catalog.db-wal").stat().st_size
        limits = resource.prlimit(catalog.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(catalog.process.pid, resource.RLIMIT_FSIZE, (longest, limits[1]))
        for attempt in range(3):
            answer = write(catalog.url, f"refused-{attempt}")
            assert answer.status_code == 507
            assert "cannot write" in answer.json()["message"]
        assert models(catalog.url) == PER_BATCH
        read = requests.get(f"{catalog.url}/entitiesV2/{quote(model('first-0'))}", timeout=30)
        assert "mlModelProperties" in read.json()["aspects"]
        resource.prlimit(catalog.process.pid, resource.RLIMIT_FSIZE, limits)
        assert write(catalog.url, "later").status_code == 200
        assert models(catalog.url) == 2 * PER_BATCH
        assert_edges_agree(catalog.url)
        assert_search_agrees(database)
        assert_sound(database)
        assert "Traceback" not in catalog.log.read_text()
