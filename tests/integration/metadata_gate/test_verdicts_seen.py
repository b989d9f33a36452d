"""Verdicts on the entities of a real catalog: tags and incidents, on pages and in GraphQL."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from integration.metadata_gate.test_gate_in_a_catalog import ACCURATE, Nights
from integration.metadata_gate.test_gate_in_a_catalog import nights as nights  # noqa: PLC0414
from mlcat_ingest.cli.main import call
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.pipeline.write.incidents import incident_of
from support.fakes import model_urn

pytestmark = pytest.mark.integration

BAD = model_urn("bad")
TAG = "urn:li:tag:fails.accurate"
INCIDENTS = """query q($u: String!) { mlModel(urn: $u) {
  tags { tags { tag { urn } } }
  incidents(start: 0) { total incidents {
    title incidentStatus { state message } entity { urn } source { source { urn } }
  } } } }"""


class Night:
    """Night after night with the verdicts of one test shown."""

    def __init__(self, nights: Nights) -> None:
        self.nights = nights
        self.client = CatalogClient(nights.catalog.url)

    def run(self, where: str = "service") -> dict[str, int]:
        verdicts = "{tag: [accurate], incident: [Models reach]}"
        evaluate = f"{{where: {where}, scope: all, verdicts: {verdicts}}}"
        assert self.nights.run("accurate", "--full", evaluate=evaluate) in {0, 3}
        report = json.loads((self.nights.folder / "report.json").read_text())
        assert report["notes"] == {}
        return {**report["verdicts_shown"], "sent": report["proposals_sent"]}

    def model(self) -> dict[str, Any]:
        model: dict[str, Any] = self.client.graphql(INCIDENTS, {"u": BAD})["mlModel"]
        return model

    def states(self) -> list[str]:
        listed = self.model()["incidents"]["incidents"]
        return [one["incidentStatus"]["state"] for one in listed]

    def edit(self, **status: str) -> None:
        """Change the incident as a person does."""
        urn = incident_of(BAD, ACCURATE)
        info = dict(self.client.get_aspect(urn, "incidentInfo") or {})
        info["status"] = {**info["status"], **status}
        assert not self.client.write([Proposal(urn, "incidentInfo", info)])

    def mark(self, stage: str) -> None:
        with sqlite3.connect(self.nights.folder / "mlflow.db") as connection:
            connection.execute(
                "UPDATE runs SET lifecycle_stage = ? WHERE run_uuid = 'bad'", [stage]
            )

    def improve(self, accuracy: float) -> None:
        with sqlite3.connect(self.nights.folder / "mlflow.db") as connection:
            connection.execute(
                "UPDATE latest_metrics SET value = ? WHERE run_uuid = 'bad'", [accuracy]
            )


@pytest.fixture
def night(nights: Nights) -> Iterator[Night]:
    nights.train("bad", 0.5)
    nights.train("good", 0.95)
    night = Night(nights)
    yield night
    night.client.close()


@pytest.mark.parametrize("where", ["service", "client"])
def test_a_failure_is_seen_until_the_test_passes(night: Night, where: str) -> None:
    shown = night.run(where)
    assert (shown["tags added"], shown["incidents opened"]) == (1, 1)
    assert night.run(where) == {"sent": 0}
    model = night.model()
    assert [one["tag"]["urn"] for one in model["tags"]["tags"]] == [TAG]
    assert model["incidents"] == {
        "total": 1,
        "incidents": [
            {
                "title": "Metadata test fails: Models reach an accuracy of 0.9",
                "incidentStatus": {"state": "ACTIVE", "message": None},
                "entity": {"urn": BAD},
                "source": {"source": {"urn": ACCURATE}},
            }
        ],
    }
    page = requests.get(f"{night.nights.catalog.url}/entity/{BAD}?tab=incidents", timeout=30).text
    assert "1 active incident" in page
    assert "Metadata test fails: Models reach" in page
    night.improve(0.99)
    shown = night.run(where)
    assert (shown["tags removed"], shown["incidents resolved"]) == (1, 1)
    assert (night.states(), night.run(where)) == (["RESOLVED"], {"sent": 0})


def test_a_person_who_resolved_it_is_overruled_by_the_next_failure_only(night: Night) -> None:
    night.run()
    night.edit(state="RESOLVED", message="accepted until May")
    assert (night.run(), night.states()) == ({"sent": 0}, ["RESOLVED"])
    night.improve(0.99)
    night.run()
    night.improve(0.4)
    assert night.run()["incidents opened"] == 1
    [one] = night.model()["incidents"]["incidents"]
    assert one["incidentStatus"] == {"state": "ACTIVE", "message": "accepted until May"}


def test_what_is_removed_fails_nothing_until_it_comes_back(night: Night) -> None:
    night.run()
    night.nights.delete("bad")
    shown = night.run()
    assert (shown["incidents resolved"], shown["tags removed"]) == (1, 1)
    assert (night.states(), night.run()) == (["RESOLVED"], {"sent": 0})
    with sqlite3.connect(night.nights.folder / "mlflow.db") as connection:
        connection.execute("UPDATE runs SET lifecycle_stage = 'active'")
    assert night.run()["incidents opened"] == 1
    assert night.states() == ["ACTIVE"]


@pytest.mark.parametrize("where", ["service", "client"])
def test_a_plan_shows_what_goes_where_all_verdicts_are_dropped(
    night: Night, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    night.run(where)
    recipe = night.nights.folder / "night.yml"
    recipe.write_text(recipe.read_text().partition("evaluate:")[0])
    capsys.readouterr()
    assert call(["plan", str(recipe), "--exit-code"]) == 5
    assert TAG in capsys.readouterr().out
    assert call([str(recipe), "-q"]) == 0
    assert (night.model()["tags"], night.states()) == ({"tags": []}, ["RESOLVED"])
    assert call(["plan", str(recipe), "--exit-code", "-q"]) == 0


def test_retract_takes_tags_and_incidents_back(night: Night, tmp_path: Path) -> None:
    night.run()
    assert call(["retract", str(tmp_path / "night.yml"), "--yes", "-q"]) == 0
    model = night.model()
    assert (model["tags"], night.states()) == ({"tags": []}, ["RESOLVED"])
