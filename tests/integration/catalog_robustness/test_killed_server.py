"""The catalog is killed again and again while clients write: what it acknowledged is there, whole.

All rounds share one database. In each the catalog is killed once while it starts, started again,
compared with what the rounds before had acknowledged, and killed in the middle of writes.
"""

import json
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from mlcat_ingest.catalog.store.store import Store
from support.catalog_checks import assert_edges_agree, assert_search_agrees, assert_sound
from support.catalog_process import catalog_process, spawned
from support.catalog_store import feature, group, model

WRITERS = 4
ASPECT = "mlModelProperties"
WAIT_S = 60
NOTHING = ("nothing", None)


@dataclass
class Writer:
    """One client and what it knows: writes it was told are done, and the one it was not.

    It makes batches of new models and forgets none of them, writes a batch of models that are
    always the same, and deletes one of the new ones now and then.
    """

    name: str
    number: int = 0
    new: dict[str, list[str]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    rewritten: int = 0
    unsure: tuple[str, Any] = NOTHING

    @property
    def same(self) -> list[str]:
        return [model(f"{self.name}-same-{at}") for at in range(7)]

    def write(self, url: str, acknowledged: threading.Semaphore) -> None:
        """Write until the catalog is gone."""
        chosen = random.Random(f"{self.name} {self.number}")
        self.unsure = NOTHING
        with requests.Session() as session:
            while True:
                self.number += 1
                kind = chosen.choice(["new", "new", "same", "delete"])
                try:
                    getattr(self, f"_{kind}")(session, url, chosen)
                except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
                    return
                self.unsure = NOTHING
                acknowledged.release()

    def _new(self, session: requests.Session, url: str, chosen: random.Random) -> None:
        batch = f"{self.name}-{self.number}"
        urns = [model(f"{batch}-{at}") for at in range(chosen.choice([1, 5, 60]))]
        self.unsure = ("new", (batch, urns))
        self._post(session, url, urns)
        self.new[batch] = urns

    def _same(self, session: requests.Session, url: str, _: random.Random) -> None:
        self.unsure = ("same", self.number)
        self._post(session, url, self.same)
        self.rewritten = self.number

    def _delete(self, session: requests.Session, url: str, chosen: random.Random) -> None:
        if not self.new:
            return
        urn = chosen.choice(self.new[chosen.choice(list(self.new))])
        self.unsure = ("delete", urn)
        answer = session.post(f"{url}/entities?action=delete", json={"urn": urn}, timeout=WAIT_S)
        assert answer.status_code == 200, answer.text
        self.deleted.add(urn)

    def _post(self, session: requests.Session, url: str, urns: list[str]) -> None:
        value = {
            "customProperties": {"number": str(self.number)},
            "description": "killed " * 40,
            "groups": [group(f"{self.name}-{self.number % 5}")],
            "mlFeatures": [feature("t", f"f{at}") for at in range(self.number % 7)],
        }
        proposals = [
            {
                "entityType": "mlModel",
                "entityUrn": urn,
                "changeType": "UPSERT",
                "aspectName": ASPECT,
                "aspect": {"value": json.dumps(value), "contentType": "application/json"},
            }
            for urn in urns
        ]
        answer = session.post(
            f"{url}/aspects?action=ingestProposalBatch",
            json={"proposals": proposals, "async": "false"},
            timeout=WAIT_S,
        )
        assert answer.status_code == 200, answer.text

    def settle(self, store: Store) -> None:
        """Hold what is stored against what was acknowledged, and take over what was not."""
        kind, what = self.unsure
        if kind == "new":
            there = store.exists(what[1])
            assert there in (set(), set(what[1])), f"half of the batch {what[0]}"
            if there:
                self.new[what[0]] = what[1]
        elif kind == "delete" and not store.exists([what]):
            self.deleted.add(what)
        self.unsure = NOTHING
        written = {urn for urns in self.new.values() for urn in urns} - self.deleted
        stored = store.get_many(sorted(written | self.deleted), [ASPECT])
        assert stored.keys() == written
        assert all(stored[urn].keys() == {ASPECT} for urn in written)
        self._settle_same(store, what if kind == "same" else self.rewritten)

    def _settle_same(self, store: Store, latest: int) -> None:
        stored = [aspects[ASPECT] for aspects in store.get_many(self.same, [ASPECT]).values()]
        numbers = {int(one.value["customProperties"]["number"]) for one in stored}
        assert len(numbers) == 1 or (not stored and not self.rewritten), "half of a rewrite"
        assert numbers <= {self.rewritten, latest}
        self.rewritten = max(numbers, default=0)
        for urn, one in zip(self.same, stored, strict=False):
            versions = [store.get_version(urn, ASPECT, at) for at in range(1, one.version + 1)]
            assert None not in versions, f"{urn} lacks a version"


def delays() -> Iterator[float]:
    """Yield times from "Python has not even started" to "the catalog listens", in seconds."""
    while True:
        yield from (0.5, 0.9, 0.05, 0.7, 1.1, 0.3)


def test_what_was_acknowledged_is_there_and_whole(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    database = tmp_path / "catalog.db"
    writers = [Writer(f"w{at}") for at in range(WRITERS)]
    chosen = random.Random(0)
    for _, delay_s in zip(range(int(request.config.getoption("--kills"))), delays(), strict=False):
        with spawned(database):
            time.sleep(delay_s)
        with catalog_process(database) as running, ThreadPoolExecutor(WRITERS) as pool:
            check(database, running.url, writers)
            acknowledged = threading.Semaphore(0)
            writing = [pool.submit(writer.write, running.url, acknowledged) for writer in writers]
            for _ in range(chosen.randint(30, 90)):
                assert acknowledged.acquire(timeout=WAIT_S), "nothing is acknowledged any more"
            running.kill()
            for each in writing:
                each.result(WAIT_S)
            assert "Traceback" not in running.log.read_text()
    with catalog_process(database) as running:
        check(database, running.url, writers)
    print(f"{sum(len(urns) for writer in writers for urns in writer.new.values())} models")


def check(database: Path, url: str, writers: list[Writer]) -> None:
    """Hold the catalog that has come up again against what the writers know."""
    with closing(Store.open(database)) as store:
        for writer in writers:
            writer.settle(store)
    assert_edges_agree(url)
    assert_search_agrees(database)
    assert_sound(database)
