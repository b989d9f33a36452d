"""The paths of the REST endpoints, and the errors that all of them share."""

from dataclasses import replace
from pathlib import Path

import pytest

from mlcat_ingest.catalog.limits import DEFAULT_LIMITS
from support.rest_client import RestClient, rest_client


@pytest.mark.parametrize("prefix", ["", "/gms", "/api/gms"])
def test_the_shape_of_an_error_is_that_of_its_family(client: RestClient, prefix: str) -> None:
    assert client.refused("GET", f"{prefix}/openapi/nowhere", status=404)
    assert client.refused("GET", f"{prefix}/nowhere", status=404)
    assert client.refused("PUT", f"{prefix}/openapi/v3/entity/mlModel", status=405)
    assert client.refused("PUT", f"{prefix}/config", status=405)
    assert client.refused("POST", f"{prefix}/openapi/v3/entity/mlModel", b"{")
    assert client.refused("POST", f"{prefix}/aspects?action=ingestProposal", b"{")


def test_a_path_may_end_with_a_slash_or_not(client: RestClient) -> None:
    for path in ("/config", "/health", "/openapi/v3/entity/mlModel/batchGet"):
        for slash in ("", "/"):
            answer = client.send("GET" if "batch" not in path else "POST", path + slash, [])
            assert answer.status == 200


def test_more_requests_than_allowed_are_reported_to_come_back(tmp_path: Path) -> None:
    with rest_client(tmp_path / "c.db", replace(DEFAULT_LIMITS, requests_at_once=0)) as client:
        for path in ("/aspects/urn%3Ali%3Atag%3Aa?aspect=status", "/openapi/v3/entity/tag"):
            answer = client.send("GET", path)
            assert answer.status == 429
            assert answer.headers["retry-after"] == "1"
        # What tells whether the service lives is answered always.
        assert client.send("GET", "/health").status == 200
        assert client.send("GET", "/gms/config").status == 200
