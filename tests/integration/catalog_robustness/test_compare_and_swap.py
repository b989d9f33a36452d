"""Sixteen clients add to one list by read, add and conditional write: no entry is lost."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.errors import AspectRejectedError
from mlcat_ingest.metadata.proposal import Proposal
from support.catalog_process import catalog_process
from support.catalog_store import feature, table

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::datahub.errors.ExperimentalWarning"),
]

sdk = pytest.importorskip("datahub.ingestion.graph.client", reason="no DataHub SDK")
mcp = pytest.importorskip("datahub.emitter.mcp")
schema = pytest.importorskip("datahub.metadata.schema_classes")
sdk_errors = pytest.importorskip("datahub.configuration.common")

WRITERS = 16
AT_LEAST = 3
TABLE = table("shared")
ASPECT = "mlFeatureTableProperties"


class Client(Protocol):
    """A way to reach the catalog: both verbs as a careful writer uses them."""

    def read(self) -> tuple[list[str], str]:
        """Return the features of the table, and the version they have."""

    def write(self, features: list[str], version: str) -> str | None:
        """Write the features if the version is still that one; return why they were not."""


class Ours:
    """Our own client."""

    def __init__(self, client: CatalogClient) -> None:
        self._client = client

    def read(self) -> tuple[list[str], str]:
        stored = self._client.read_many([TABLE], [ASPECT]).get(TABLE, {}).get(ASPECT)
        if stored is None:
            return [], "-1"
        assert stored.version is not None
        return list(stored.value["mlFeatures"]), stored.version

    def write(self, features: list[str], version: str) -> str | None:
        headers = {"If-Version-Match": version}
        try:
            self._client.emit(Proposal(TABLE, ASPECT, {"mlFeatures": features}, headers=headers))
        except AspectRejectedError as error:
            return error.reason
        return None


class DataHubs:
    """The unmodified DataHub SDK, by its default transport."""

    def __init__(self, url: str) -> None:
        self._graph = sdk.DataHubGraph(sdk.DatahubClientConfig(server=url))

    def read(self) -> tuple[list[str], str]:
        stored = self._graph.get_entity_raw(TABLE, [ASPECT])["aspects"].get(ASPECT)
        if stored is None:
            return [], "-1"
        return stored["value"]["mlFeatures"], stored["systemMetadata"]["version"]

    def write(self, features: list[str], version: str) -> str | None:
        proposal = mcp.MetadataChangeProposalWrapper(
            entityUrn=TABLE,
            aspect=schema.MLFeatureTablePropertiesClass(mlFeatures=features),
            headers={"If-Version-Match": version},
        )
        try:
            self._graph.emit(proposal)
        except sdk_errors.OperationalError as error:
            return str(error.info["message"])
        return None


class DataHubsByOpenApi(DataHubs):
    """The unmodified DataHub SDK, told to write by OpenAPI v3; it reads so as well."""

    def __init__(self, url: str) -> None:
        config = sdk.DatahubClientConfig(server=url, openapi_ingestion=True)
        self._graph = sdk.DataHubGraph(config)

    def read(self) -> tuple[list[str], str]:
        found = self._graph.get_entities(
            "mlFeatureTable", [TABLE], [ASPECT], with_system_metadata=True
        )
        stored, metadata = found.get(TABLE, {}).get(ASPECT, (None, None))
        return ([], "-1") if stored is None else (list(stored.mlFeatures), metadata.version)


@contextmanager
def client(url: str, writer: int) -> Iterator[Client]:
    if writer % 3:
        yield (DataHubs if writer % 3 == 1 else DataHubsByOpenApi)(url)
    else:
        with CatalogClient(url, "") as ours:
            yield Ours(ours)


def hammer(url: str, writer: int, together: threading.Barrier, for_s: float) -> list[str]:
    """Add features until the time is up, and a few at least; return those acknowledged."""
    added: list[str] = []
    with client(url, writer) as catalog:
        together.wait(60)
        until = time.monotonic() + for_s
        while len(added) < AT_LEAST or time.monotonic() < until:
            features, version = catalog.read()
            mine = feature("shared", f"{writer}_{len(added)}")
            refusal = catalog.write([*features, mine], version)
            if refusal is None:
                added.append(mine)
            else:
                assert f"Expected version {version}, actual version" in refusal
    return added


def test_no_entry_is_lost(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    for_s = float(request.config.getoption("--hammer-s"))
    database = tmp_path / "catalog.db"
    together = threading.Barrier(WRITERS)
    with catalog_process(database) as running, ThreadPoolExecutor(WRITERS) as pool:
        writers = [
            pool.submit(hammer, running.url, number, together, for_s) for number in range(WRITERS)
        ]
        added = [writer.result() for writer in writers]
        answers = running.answers()
    acknowledged = [one for each in added for one in each]
    assert set(answers) == {200, 412, 422}, running.log.read_text()
    with closing(Store.open(database)) as store:
        latest = store.get_version(TABLE, ASPECT, 0)
        assert latest is not None
        assert sorted(latest.value["mlFeatures"]) == sorted(acknowledged)
        # Every write added one entry, so every version is the one before it and one more.
        assert latest.version == len(acknowledged)
        for version in range(1, latest.version):
            earlier = store.get_version(TABLE, ASPECT, version)
            assert earlier is not None
            assert earlier.value["mlFeatures"] == latest.value["mlFeatures"][:version]
    print(f"{len(acknowledged)} entries, {answers}, by writer {list(map(len, added))}")
    database.unlink()  # with its history it is a large file
