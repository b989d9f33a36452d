"""The store that all fault runs copy, and the faults that they meet."""

import pytest

from support.fault_world import Origin


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    return Origin.make(tmp_path_factory.mktemp("faults") / "origin")


@pytest.fixture
def fault_seed(request: pytest.FixtureRequest) -> int:
    """The seed, which pytest shows with a test that fails."""
    chosen = int(request.config.getoption("--fault-seed"))
    print(f"--fault-seed {chosen}")
    return chosen
