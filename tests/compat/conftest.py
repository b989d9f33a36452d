"""What every test beside DataHub's own code needs: it must not call home."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def no_telemetry() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATAHUB_TELEMETRY_ENABLED", "false")
        yield
