"""A DataHub server that is busy, limits, forbids or drops: what can arrive arrives."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.gms import V0_15, V1_6, V1_7, GmsProfile
from support.gms_worlds import Past, differences, gms_world, plain_world

pytestmark = pytest.mark.integration


@pytest.fixture(scope="session")
def undisturbed(past: Past, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    with plain_world(tmp_path_factory.mktemp("undisturbed") / "plain", past) as world:
        assert world.ingest("first")["exit_code"] == 0
        return world.contents()


@pytest.mark.parametrize("profile", [V1_6, V1_7], ids=["500", "503"])
def test_exhausted_database_retries(
    tmp_path: Path, past: Past, undisturbed: dict[str, Any], profile: GmsProfile
) -> None:
    with gms_world(tmp_path / "gms", past, profile) as world:
        assert world.gms is not None
        world.gms.fail_writes(3)
        report = world.ingest("first")
        assert report["exit_code"] == 0
        assert differences(undisturbed, world.contents()) == []


def test_a_rate_limit(tmp_path: Path, past: Past, undisturbed: dict[str, Any]) -> None:
    with gms_world(tmp_path / "gms", past, V1_6) as world:
        assert world.gms is not None
        world.gms.limit_requests(4, retry_after_s=0)
        report = world.ingest("first")
        assert report["exit_code"] == 0
        assert differences(undisturbed, world.contents()) == []


def test_spurious_refusals_of_versions(
    tmp_path: Path, past: Past, undisturbed: dict[str, Any]
) -> None:
    with gms_world(tmp_path / "gms", past, replace(V1_6, version="v1.4.0")) as world:
        assert world.gms is not None
        world.gms.refuse_versions(2)
        report = world.ingest("first")
        assert report["exit_code"] == 0
        assert differences(undisturbed, world.contents()) == []


def test_a_forbidden_entity_stays_behind_alone(
    tmp_path: Path, past: Past, undisturbed: dict[str, Any]
) -> None:
    forbidden: set[str] = set()
    profile = replace(V1_6, forbids=forbidden.__contains__)
    with gms_world(tmp_path / "gms", past, profile) as world:
        urn = world.model("c")
        forbidden.add(urn)
        report = world.ingest("first")
        assert report["exit_code"] == 4
        assert report["entities"]["mlModel"]["rejected"] == 1
        expected = {one: aspects for one, aspects in undisturbed.items() if one != urn}
        assert differences(expected, world.contents()) == []
        forbidden.clear()
        assert world.ingest("first")["exit_code"] == 0
        assert differences(undisturbed, world.contents()) == []


def test_a_server_below_the_smallest_keeps_the_rest_and_the_report_names_what_not(
    tmp_path: Path, past: Past, undisturbed: dict[str, Any]
) -> None:
    with gms_world(tmp_path / "gms", past, V0_15) as world:
        report = world.ingest("first")
        held = world.contents()
    assert report["exit_code"] == 4
    lacking = {name.replace(".", ": ", 1) for name in V0_15.lacks}
    assert report["dropped"] == {
        "mlModel: subTypes": 8,
        "mlModel: versionProperties.versioningScheme": 8,
        "mlModelGroup: subTypes": 4,
    }
    expected = {
        urn: {
            name: {field: one for field, one in value.items() if f"{place}.{field}" not in lacking}
            for name, value in aspects.items()
            if (place := f"{urn.split(':')[2]}: {name}") not in lacking
        }
        for urn, aspects in undisturbed.items()
    }
    assert differences(expected, held) == []
