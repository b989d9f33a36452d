"""What a probe found of a catalog is kept in the state database, for the version that it was of."""

import logging
from pathlib import Path

import pytest

from mlcat_ingest.client.behaviour import UNPROBED, ProbeRow
from mlcat_ingest.pipeline.state import probes
from mlcat_ingest.pipeline.state.inspection import reset
from mlcat_ingest.pipeline.state.session import StateOptions, StatePolicy, StateSession
from support.fakes import FakeSink

pytestmark = pytest.mark.integration

PLACE, OTHER = "http://catalog", "http://other"
ROWS = (
    ProbeRow("G1", "failed If-Version-Match", "differs", "taken"),
    ProbeRow("G5", "aspects of models", "differs", "…", ("mlModel.container",)),
    ProbeRow("G6", "evaluation of metadata tests", "not allowed", ""),
    ProbeRow("G99", "a fact of another release of ours", "differs", "?"),
)


def keep(url: str, version: str = "v1.0.0", recipe: str = "r", place: str = PLACE) -> None:
    probes.save(url, recipe, place, version, 1_760_000_000_000, ROWS)


@pytest.mark.parametrize("policy", StatePolicy)
def test_each_kind_of_run_knows_what_a_probe_found(url: str, policy: StatePolicy) -> None:
    keep(url, "v0.9.9")
    keep(url)
    keep(url, recipe="another")
    state = StateSession(url, StateOptions("r"), policy)
    state.open(FakeSink(place=PLACE))
    found = state.probed_behaviour("v1.0.0")
    assert (found.version, found.at) == ("v1.0.0", "2025-10-09 08:53 UTC")
    assert found.evaluates is None
    assert list(found.lacks) == ["mlModel.container"]
    assert found.decisions == ("not sent: mlModel.container",)
    state.close()


@pytest.mark.parametrize("version", ["v1.0.1", None])
def test_another_version_makes_it_void_with_a_line_in_the_log(
    url: str, version: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    keep(url)
    state = StateSession(url, StateOptions("r"))
    state.open(FakeSink(place=PLACE))
    with caplog.at_level(logging.INFO):
        assert state.probed_behaviour(version) is UNPROBED
    assert len(caplog.messages) == 1
    assert "the catalog was DataHub v1.0.0" in caplog.messages[0]
    state.close()


def test_a_probe_of_another_catalog_says_nothing(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    keep(url, place=OTHER)
    state = StateSession(url, StateOptions("r"))
    state.open(FakeSink(place=PLACE))
    assert state.probed_behaviour("v1.0.0") is UNPROBED
    assert caplog.messages == []
    state.close()


def test_a_probe_may_be_kept_while_a_run_is_at_work(url: str) -> None:
    state = StateSession(url, StateOptions("r"))
    state.open(FakeSink(place=PLACE))
    keep(url)
    assert state.probed_behaviour("v1.0.0") is UNPROBED
    assert probes.look_up(url, "r", PLACE) is not None
    state.close()


def test_reset_deletes_it(url: str) -> None:
    keep(url)
    assert reset(url, "r") is True
    assert probes.look_up(url, "r", PLACE) is None
    assert reset(url, "r") is False


def test_nothing_is_made_to_look_for_it(tmp_path: Path) -> None:
    assert probes.look_up(f"sqlite:///{tmp_path}/state.db", "r", PLACE) is None
    assert list(tmp_path.iterdir()) == []
