"""A run decides by the probe that `check --write --probe` kept in the recipe's state."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mlcat_ingest.cli.main import call
from mlcat_ingest.testing.gms import V1_0, V1_7, GmsProfile, RunningGms, running_gms
from support.fakes import group_urn
from support.small_store import SmallStore, make

pytestmark = pytest.mark.integration

PAGE = "mlModelGroup.mlModelGroupProperties.externalUrl"
DROPPED = {"mlModelGroup: mlModelGroupProperties.externalUrl": 1, "mlModelGroup: subTypes": 1}


class Upgrade:
    """A server whose version changes, and nothing else about it, once `version` is set."""

    version: str | None = None

    def around(self, app: ASGIApp) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            reply: ASGIApp = app
            if self.version is not None and scope.get("path") == "/config":
                named = {"acryldata/datahub": {"version": self.version}}
                reply = JSONResponse({"noCode": "true", "versions": named})
            await reply(scope, receive, send)

        return answer


@dataclass(frozen=True)
class World:
    """A server and a recipe of an MLflow store that writes to it."""

    gms: RunningGms
    upgrade: Upgrade
    store: SmallStore

    @property
    def recipe(self) -> str:
        path = self.store.folder / "recipe.yml"
        source = "{tracking_uri: 'sqlite:///mlflow.db', ui_url: 'https://mlflow.example.com'}"
        path.write_text(
            "name: prod\n"
            f"source: {{type: mlflow, config: {source}}}\n"
            f"sink: {{type: rest, config: {{server: '{self.gms.url}', token: ''}}}}\n"
            "report_to_catalog: false\n"
        )
        return str(path)

    def ingest(self, expected: int, *how: str) -> dict[str, Any]:
        report = self.store.folder / "report.json"
        assert call([self.recipe, "--report", str(report), *how]) == expected
        found: dict[str, Any] = json.loads(report.read_text())
        return found

    def plan(self) -> int:
        return call(["plan", self.recipe, "--full", "--exit-code", "-q"])

    def probe(self) -> None:
        assert call(["check", self.recipe, "--write", "--probe", "-q"]) in {0, 4}

    def behaviour(self, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
        """Return what `check` says about a probe that is kept."""
        capsys.readouterr()
        call(["check", self.recipe, "--json"])
        findings = json.loads(capsys.readouterr().out)["findings"]
        return [
            (one["outcome"], one["detail"])
            for one in findings
            if one["what"] == "catalog behaviour"
        ]


@contextmanager
def world(folder: Path, profile: GmsProfile = V1_7, **changes: Any) -> Iterator[World]:
    folder.mkdir(exist_ok=True)
    upgrade = Upgrade()
    changed = replace(profile, **changes)
    with running_gms(folder / "gms.db", changed, around=upgrade.around) as gms:
        yield World(gms, upgrade, make(folder, gms.url))


def test_a_field_that_a_release_drops_is_not_sent_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with world(tmp_path, V1_0) as there:
        first = there.ingest(4)
        assert (first["dropped"], first["probe"]) == (DROPPED, None)
        assert there.plan() == 5
        assert there.ingest(4, "--full")["proposals_sent"] == 2

        there.probe()
        writes = len(there.gms.calls("/aspects"))
        capsys.readouterr()
        report = there.ingest(4, "--full")
        assert (report["dropped"], report["proposals_sent"]) == (DROPPED, 0)
        assert len(there.gms.calls("/aspects")) == writes
        assert PAGE in report["probe"]["lacks"]
        assert PAGE in capsys.readouterr().out
        capsys.readouterr()
        assert there.plan() == 0
        planned = capsys.readouterr().out
        assert "DataHub v1.0.0:" in planned
        assert PAGE in planned
        [(outcome, detail)] = there.behaviour(capsys)
        assert outcome == "ok"
        assert PAGE in detail

        # Another version: what the probe found is outdated, and all is found out by trying.
        there.upgrade.version = "v1.7.0"
        with caplog.at_level(logging.INFO):
            upgraded = there.ingest(4, "--full")
        assert (upgraded["proposals_sent"], upgraded["probe"]) == (2, None)
        lines = [one for one in caplog.messages if "is outdated" in one]
        assert len(lines) == 1
        assert "was DataHub v1.0.0, and is now DataHub v1.7.0" in lines[0]
        assert there.plan() == 5
        [(outcome, detail)] = there.behaviour(capsys)
        assert outcome == "warning"
        assert "is outdated: it was of v1.0.0" in detail


def test_a_release_that_lacks_a_field_never_gets_it_after_a_probe(tmp_path: Path) -> None:
    with world(tmp_path, V1_0) as there:
        there.probe()
        before = len(there.gms.calls("/aspects"))
        assert there.ingest(4)["dropped"] == DROPPED
        sent = [one.json() for one in there.gms.calls("/aspects")[before:]]
        assert sent
        assert "externalUrl" in json.dumps(sent)  # of models, which have it
        groups = [
            one
            for each in sent
            for one in each["proposals"]
            if one["entityUrn"] == group_urn("churn")
        ]
        assert groups
        assert all("externalUrl" not in one["aspect"]["value"] for one in groups)


def test_a_service_that_does_not_evaluate_is_not_asked_again(tmp_path: Path) -> None:
    with world(tmp_path / "tried") as there:
        there.ingest(0)
        assert there.gms.calls("/test")
    with world(tmp_path / "probed") as there:
        there.probe()
        asked = len(there.gms.calls("/test"))
        report = there.ingest(0)
        assert report["evaluation"]["not_evaluated"] is None
        assert report["probe"]["evaluates"] is False
        assert len(there.gms.calls("/test")) == asked


def test_a_service_that_names_no_version_is_tried_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with world(tmp_path, version=None) as there:
        capsys.readouterr()
        there.probe()
        assert "the service reports no version" in capsys.readouterr().out
        assert there.ingest(0)["probe"] is None
        assert there.behaviour(capsys) == []


def test_reset_forgets_a_probe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with world(tmp_path) as there:
        there.probe()
        assert len(there.behaviour(capsys)) == 1
        assert call(["state", "reset", there.recipe, "--yes", "-q"]) == 0
        assert there.behaviour(capsys) == []
