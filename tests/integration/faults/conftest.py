"""The store that all fault runs copy, and the faults that they meet."""

import pytest

from support.fault_world import Origin, Undisturbed, world


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    return Origin.make(tmp_path_factory.mktemp("faults") / "origin")


@pytest.fixture(scope="session")
def undisturbed(origin: Origin, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """What a run that nothing happens to reports and leaves."""
    with world(tmp_path_factory.mktemp("undisturbed") / "world", origin) as well:
        report = well.ingest()
        assert report["exit_code"] == 0
        assert report["evaluation"]["passing"]
        assert report["evaluation"]["failing"]
        again = well.ingest(None, "--full")
        assert again["proposals_sent"] == 0
        return Undisturbed(report, well.contents(), again["catalog_requests"])


@pytest.fixture
def fault_seed(request: pytest.FixtureRequest) -> int:
    """The seed, which pytest shows with a test that fails."""
    chosen = int(request.config.getoption("--fault-seed"))
    print(f"--fault-seed {chosen}")
    return chosen
