"""The conditions that a server sees in whole runs: on every aspect but the keys."""

from pathlib import Path

from mlcat_ingest.metadata.proposal import IF_VERSION_MATCH, NO_SUCH_VERSION
from mlcat_ingest.metadata.registry import KEY_ASPECTS
from support.gms import V1_7
from support.gms_worlds import Past, World, gms_world, plain_world


def conditions(world: World) -> list[list[str]]:
    """Return the conditions of each request; no other proposal lacks one than those of keys."""
    found: list[list[str]] = []
    for request in world.witness.seen:
        by_aspect = [(one["aspectName"], one.get("headers", {})) for one in request]
        assert [name for name, headers in by_aspect if not headers and name not in KEY_ASPECTS] == [
            name for name, _ in by_aspect if name.startswith(("dataHubExecution", "dataHubIngest"))
        ]
        assert not any(headers for name, headers in by_aspect if name in KEY_ASPECTS)
        found.append([headers[IF_VERSION_MATCH] for _, headers in by_aspect if headers])
    return found


def test_a_server_that_names_its_version_sees_a_true_condition_on_every_proposal(
    tmp_path: Path, past: Past
) -> None:
    with gms_world(tmp_path / "gms", past, V1_7) as world:
        world.ingest("first")
        world.ingest("less", "--full")
        found = conditions(world)
    assert sum(map(len, found)) > 30
    assert not any(NO_SUCH_VERSION in one for one in found)


def test_a_server_without_a_version_is_asked_once_with_no_key_aspect(
    tmp_path: Path, past: Past
) -> None:
    with plain_world(tmp_path / "plain", past) as world:
        world.ingest("first")
        found = conditions(world)
    [asked] = [number for number, one in enumerate(found) if NO_SUCH_VERSION in one]
    assert set(found[asked]) == {NO_SUCH_VERSION}
    assert len(found[asked]) == len(world.witness.seen[asked])
