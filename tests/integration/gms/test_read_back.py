"""What a DataHub server acknowledges and does not store ends a run with 4, and is named."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from support.cli import report_of
from support.gms import V1_0, V1_6, GmsProfile, RunningGms, running_gms
from support.small_store import SmallStore, make


@dataclass(frozen=True)
class World:
    gms: RunningGms
    store: SmallStore

    def recipe(self, env: str = "PROD", ui: str = "") -> str:
        path = self.store.folder / "recipe.yml"
        path.write_text(
            f"name: prod\n"
            "source: {type: mlflow, config: {tracking_uri: 'sqlite:///mlflow.db', "
            f"env: {env}{ui and f', ui_url: {ui}'}}}}}\n"
            f"sink: {{type: rest, config: {{server: '{self.gms.url}'}}}}\n"
            "report_to_catalog: false\n"
        )
        return str(path)

    def ingest(self, expected: int, *how: str, env: str = "PROD", ui: str = "") -> dict[str, Any]:
        return report_of(self.recipe(env, ui), *how, code=expected)


@contextmanager
def world(folder: Path, profile: GmsProfile = V1_6, **changes: Any) -> Iterator[World]:
    with running_gms(folder / "gms.db", replace(profile, **changes)) as gms:
        yield World(gms, make(folder, gms.url))


BATCH_READS = [f"/openapi/v3/entity/{one}/batchGet" for one in ("mlModel", "mlModelGroup")]


def test_where_all_is_stored_it_costs_a_read_for_each_entity_type(tmp_path: Path) -> None:
    with world(tmp_path) as there:
        assert there.ingest(0)["dropped"] == {}
        # One to merge with what is stored, and one to see that what was written is.
        assert [len(there.gms.calls(path)) for path in BATCH_READS] == [2, 2]


def test_dropped_aspects_and_fields_are_named_and_counted(tmp_path: Path) -> None:
    lacks = frozenset({"mlModel.ownership", "mlModel.mlModelProperties.hyperParams"})
    with world(tmp_path, lacks=lacks) as there:
        report = there.ingest(4)
        assert report["dropped"] == {
            "mlModel: ownership": 2,
            "mlModel: mlModelProperties.hyperParams": 2,
        }
        assert report["entities"]["mlModel"] == {
            "read": 2,
            "created": 2,
            "updated": 0,
            "removed": 0,
            "unchanged": 0,
            "still_removed": 0,
            "left_out": 0,
            "rejected": 0,
        }
        # A pass over changes does not send again what the server cannot keep; a full one does.
        again = there.ingest(0)
        assert (again["proposals_sent"], again["dropped"]) == (0, {})
        assert there.ingest(4, "--full")["dropped"] == report["dropped"]


def test_a_full_pass_sends_a_field_again_that_was_dropped(tmp_path: Path) -> None:
    with world(tmp_path, lacks=frozenset({"mlModel.mlModelProperties.hyperParams"})) as there:
        dropped = there.ingest(4)["dropped"]
        for _ in range(2):
            assert there.ingest(4, "--full")["dropped"] == dropped


def test_a_full_pass_over_what_did_not_change_asks_once_for_each_entity_type(
    tmp_path: Path,
) -> None:
    with world(tmp_path) as there:
        there.ingest(0)
        before = [len(there.gms.calls(path)) for path in BATCH_READS]
        assert there.ingest(0, "--full")["proposals_sent"] == 0
        for path, count in zip(BATCH_READS, before, strict=True):
            [asked] = there.gms.calls(path)[count:]
            assert asked.query["values"] == "false"


def test_the_smallest_release_drops_pages_and_subtypes_of_groups_and_a_run_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with world(tmp_path, V1_0) as there:
        report = there.ingest(4, ui="https://mlflow.example")
        assert report["dropped"] == {
            "mlModelGroup: mlModelGroupProperties.externalUrl": 1,
            "mlModelGroup: subTypes": 1,
        }
        capsys.readouterr()
        assert call([there.recipe(ui="https://mlflow.example"), "--full"]) == 4
        words = "mlModelGroup: mlModelGroupProperties.externalUrl, of 1 entity: acknowledged"
        assert words in capsys.readouterr().out
        # Nothing has changed, so nothing is written that the server would drop.
        assert there.ingest(0, ui="https://mlflow.example")["proposals_sent"] == 0


def test_a_dropped_aspect_does_not_pass_for_a_server_that_checks_no_versions(
    tmp_path: Path,
) -> None:
    with world(tmp_path, lacks=frozenset({"mlModel.ownership"}), version=None) as there:
        there.ingest(4)
        sent = len(there.gms.calls("/aspects"))
        there.store.change("UPDATE runs SET user_id = 'joe', name = 'new'")
        there.ingest(4, "--full")
        probe, *writes = [one.json()["proposals"] for one in there.gms.calls("/aspects")[sent:]]
        assert sorted(one["aspectName"] for one in probe) == ["mlModelProperties", "ownership"]
        assert writes
        assert all("If-Version-Match" in one["headers"] for some in writes for one in some)


def test_entities_of_an_environment_that_a_server_lacks_are_named(tmp_path: Path) -> None:
    with world(tmp_path, V1_0, version=None) as there:
        report = there.ingest(4, env="SBX")
        assert report["dropped"] == {
            "mlModel in SBX: the entity": 2,
            "mlModelGroup in SBX: the entity": 1,
        }


@pytest.mark.parametrize("command", ["run", "plan"])
def test_an_environment_that_the_release_lacks_is_refused_before_a_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    with world(tmp_path, V1_0) as there:
        assert call([command, there.recipe("SBX")]) == 2
        assert there.gms.calls("/aspects") == []
    reported = capsys.readouterr().err
    assert "DataHub v1.0.0 has no environment SBX" in reported
    assert "set `env` of the source to one of CORP, DEV, EI" in reported


def test_a_replica_that_lags_drops_nothing(tmp_path: Path) -> None:
    with world(tmp_path, replica_s=0.3) as there:
        assert there.ingest(0)["dropped"] == {}
