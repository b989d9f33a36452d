"""The gate by the command line: real metadata tests of a real catalog, over several nights."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from mlcat_ingest.cli.main import call
from support.catalog_server import RunningCatalog, running_catalog
from support.fake_service import Answer, Asked, FakeService, fake_service
from support.fakes import model_urn
from support.junit_schema import suites_of
from support.mlflow_tables import insert, make_database
from support.recipes import accuracy_test

ACCURATE, OWNED = "urn:li:test:accurate", "urn:li:test:owned"
TESTS = f"""\
{accuracy_test(0.9)}\
- id: owned
  name: Groups have an owner
  category: Governance
  definition:
    on: {{types: [mlModelGroup]}}
    rules: {{property: ownership.owners.owner, operator: exists}}
"""


@dataclass
class Nights:
    """A store, a catalog, and a recipe that is run night after night."""

    folder: Path
    catalog: RunningCatalog

    def train(self, name: str, accuracy: float) -> None:
        """Add a run that has ended just now."""
        store, now_ms = self.folder / "mlflow.db", time.time_ns() // 1_000_000
        run = {"run_uuid": name, "name": name, "experiment_id": 1, "status": "FINISHED"}
        times = {"start_time": now_ms, "end_time": now_ms, "lifecycle_stage": "active"}
        insert(store, "runs", [{**run, **times}])
        metric = {"run_uuid": name, "key": "accuracy", "value": accuracy, "is_nan": 0}
        insert(store, "latest_metrics", [{**metric, "timestamp": now_ms, "step": 0}])

    def delete(self, name: str) -> None:
        with closing(sqlite3.connect(self.folder / "mlflow.db")) as connection, connection:
            connection.execute(
                "UPDATE runs SET lifecycle_stage = 'deleted' WHERE run_uuid = ?", [name]
            )

    def run(self, pattern: str, *options: str, server: str = "", evaluate: str = "{}") -> int:
        (self.folder / "night.yml").write_text(
            f"source: {{type: mlflow, config: {{tracking_uri: 'sqlite:///mlflow.db'}}}}\n"
            f"sink: {{type: rest, config: {{server: '{server or self.catalog.url}'}}}}\n"
            f"evaluate: {evaluate}\n"
        )
        recipe, report = str(self.folder / "night.yml"), str(self.folder / "report.json")
        return call([recipe, "--fail-on-tests", pattern, "--report", report, "-q", *options])

    @property
    def gate(self) -> Any:
        return json.loads((self.folder / "report.json").read_text())["gate"]


@pytest.fixture
def nights(tmp_path: Path) -> Iterator[Nights]:
    experiment = {"experiment_id": 1, "name": "churn", "lifecycle_stage": "active"}
    make_database(tmp_path / "mlflow.db", experiments=[experiment])
    with running_catalog(tmp_path / "catalog.db") as catalog:
        (tmp_path / "tests.yml").write_text(TESTS)
        pushed = call(
            ["catalog", "tests", "push", str(tmp_path / "tests.yml"), "--server", catalog.url]
        )
        assert pushed == 0
        yield Nights(tmp_path, catalog)


def test_a_model_that_fails_is_new_the_first_night_only(nights: Nights) -> None:
    nights.train("good", 0.95)
    assert nights.run("accurate") == 0
    assert (nights.gate["passing"], nights.gate["tests"][0]["name"]) == (
        1,
        "Models reach an accuracy of 0.9",
    )
    nights.train("bad", 0.5)
    junit = nights.folder / "tests.xml"
    assert nights.run("an accuracy", "--junit", str(junit)) == 3
    assert nights.gate["examples"] == [
        {"entity": model_urn("bad"), "test": ACCURATE, "newly": True, "name": "bad (churn)"}
    ]
    [suite] = suites_of(junit)
    assert [(case.get("name"), len(case)) for case in suite.iter("testcase")] == [
        (model_urn("bad"), 1),
        (model_urn("good"), 0),
    ]
    # Nothing changes, nothing is evaluated, and it still fails.
    assert nights.run("accurate") == 3
    assert [nights.gate[key] for key in ("newly_failing", "failing", "passing")] == [0, 1, 1]
    # Who looks at another test is not told of this one.
    assert nights.run("owned") == 3
    assert [one["test"] for one in nights.gate["examples"]] == [OWNED]
    nights.delete("bad")
    assert nights.run("accurate") == 0
    assert nights.gate["passing"] == 1


@pytest.mark.parametrize(
    ("status", "words"), [(403, "no permission"), (404, "has no metadata tests")]
)
def test_a_service_that_does_not_evaluate_never_passes(
    nights: Nights, status: int, words: str
) -> None:
    nights.train("good", 0.95)
    junit = nights.folder / "tests.xml"
    with fake_service() as service:
        forward(service, nights.catalog.url)
        service.on("POST", "/test", Answer(status, {"message": "not for you"}))
        options = ("--junit", str(junit))
        evaluate = "{where: service}"
        assert nights.run("accurate", *options, server=service.server, evaluate=evaluate) == 3
    [reason] = nights.gate["not_evaluated"]
    assert words in reason
    assert "not for you" in reason
    [suite] = suites_of(junit)
    assert model_urn("good") in {case.get("name") for case in suite.iter("testcase")}
    assert suite.get("skipped") == suite.get("tests") == "2"  # the experiment's group, too


def forward(service: FakeService, url: str) -> None:
    """Let `service` answer what the service at `url` does."""

    def answer(asked: Asked) -> Answer:
        kind = {"Content-Type": asked.headers.get("Content-Type", "application/json")}
        reply = requests.request(
            asked.method, url + asked.path, data=asked.body, headers=kind, timeout=30
        )
        return Answer(reply.status_code, reply.content, {"Content-Type": "application/json"})

    for method in ("GET", "POST"):
        service.on(method, "/", answer)
