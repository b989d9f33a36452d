"""The GMS profile answers as its options say; what has arrived is read from the store behind it."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from support.fakes import group_urn, model_urn
from support.gms import V1_0, V1_6, GmsProfile, RunningGms, running_gms
from support.recorded_requests import proposal

A, B, GROUP = model_urn("a"), model_urn("b"), group_urn("churn")
Start = Callable[..., RunningGms]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def started(profile: GmsProfile = V1_6, **changes: Any) -> RunningGms:
            database = tmp_path / "gms.db"
            return stack.enter_context(running_gms(database, replace(profile, **changes)))

        yield started


def write(gms: RunningGms, *proposals: dict[str, Any]) -> requests.Response:
    url = f"{gms.url}/aspects?action=ingestProposalBatch"
    body = {"proposals": list(proposals), "async": "false"}
    return requests.post(url, json=body, timeout=30)


def properties(urn: str = A, expected: str | None = None, **values: Any) -> dict[str, Any]:
    headers = {} if expected is None else {"headers": {"If-Version-Match": expected}}
    return proposal(urn, "mlModelProperties", {"description": "d", **values}, **headers)


def stored(gms: RunningGms, urn: str = A) -> dict[str, Any]:
    found = gms.store.get_many([urn]).get(urn, {})
    made = {"mlModelKey", "mlModelGroupKey", "browsePathsV2", "dataPlatformInstance"}
    return {name: aspect.value for name, aspect in found.items() if name not in made}


def query(gms: RunningGms, text: str) -> Any:
    answer = requests.post(f"{gms.url}/api/graphql", json={"query": text}, timeout=30)
    return answer.json()


def found(gms: RunningGms) -> list[str]:
    text = (
        '{ searchAcrossEntities(input: {types: [MLMODEL], query: "*", orFilters: [{and: [{field: '
        '"platform", values: ["urn:li:dataPlatform:mlflow"]}]}]}) '
        "{ searchResults { entity { urn } } } }"
    )
    results = query(gms, text)["data"]["searchAcrossEntities"]["searchResults"]
    return [one["entity"]["urn"] for one in results]


# --- refusals -------------------------------------------------------------------------------------


# --- versions -------------------------------------------------------------------------------------

SET = "urn:li:versionSet:(scorer,mlModel)"


def version(number: int, **values: Any) -> dict[str, Any]:
    label = {"versionTag": str(number)}
    value = {"versionSet": SET, "version": label, "sortId": f"{number:04}", **values}
    return proposal(model_urn(f"scorer_{number}"), "versionProperties", value)


def latest(gms: RunningGms) -> tuple[set[int], str]:
    """Return the numbers of the versions that are marked as the latest, and what the set names."""
    urns = [model_urn(f"scorer_{number}") for number in range(9)]
    held = gms.store.get_many([*urns, SET], ["versionProperties", "versionSetProperties"])
    marked = {
        number
        for number, urn in enumerate(urns)
        if urn in held and held[urn]["versionProperties"].value.get("isLatest")
    }
    return marked, held[SET]["versionSetProperties"].value["latest"]


def test_the_latest_version_is_computed(start: Start) -> None:
    gms = start()
    for number in (1, 2):
        assert write(gms, version(number)).ok
    assert latest(gms) == ({2}, model_urn("scorer_2"))
    assert found(gms) == [model_urn("scorer_2")]
    refused = write(gms, version(3, isLatest=True))
    assert refused.status_code == 422
    assert "msg=versionProperties: IsLatest" not in refused.json()["message"]
    assert "msg=IsLatest should not be specified" in refused.json()["message"]


# --- privileges and faults ------------------------------------------------------------------------


# --- what is acknowledged and dropped -------------------------------------------------------------


def test_unknown_aspects_and_fields_are_dropped(start: Start) -> None:
    gms = start(V1_0)
    sub_types = proposal(A, "subTypes", {"typeNames": ["Model Version"]})
    owner = {"owner": "urn:li:corpuser:ann", "type": "DATAOWNER"}
    attribution = {"time": 1, "actor": "urn:li:corpuser:ann"}
    ownership = proposal(A, "ownership", {"owners": [{**owner, "attribution": attribution}]})
    link = proposal(GROUP, "mlModelGroupProperties", {"name": "g", "externalUrl": "http://x"})
    assert write(gms, properties(), sub_types, ownership, link).ok
    assert stored(gms).keys() == {"mlModelProperties", "ownership"}
    assert stored(gms)["ownership"]["owners"] == [owner]
    assert stored(gms, GROUP) == {"mlModelGroupProperties": {"name": "g"}}
    assert write(gms, sub_types).json() == {"value": "success"}


@pytest.mark.parametrize(
    "urn",
    [
        model_urn("x" * 500),
        f"{A} ",
        model_urn("a\u241fb"),
        "urn:li:mlModel:(urn:li:dataPlatform:mlflow,a,b,PROD)",
        "urn:li:mlModel:a",
        "urn:li:mlModel:(urn:li:dataPlatform:mlflow,a,CERT)",
        "urn:li:mlModel:(urn:li:dataPlatform:mlflow,a (1),PROD)",
        "urn:li:tag:a,b",
    ],
)
def test_a_proposal_with_an_invalid_urn_is_dropped(start: Start, urn: str) -> None:
    gms = start()
    aspect = proposal(urn, "status", {"removed": False})
    assert write(gms, aspect, properties(B)).ok
    assert write(gms, aspect).ok
    assert stored(gms, B)
    assert gms.store.exists([urn]) == set()


# --- searches and reads ---------------------------------------------------------------------------


def test_an_index_that_lags_shows_what_it_knew(start: Start) -> None:
    gms = start(index_refresh_s=math.inf)
    group = proposal(GROUP, "status", {"removed": False})
    assert write(gms, group).ok
    gms.catch_up()
    assert write(gms, properties(groups=[GROUP])).ok

    def members() -> Any:
        text = (
            f'{{ mlModelGroup(urn: "{GROUP}") {{ relationships(input: {{types: ["MemberOf"], '
            "direction: INCOMING, start: 0, count: 9}) { total } } }"
        )
        return query(gms, text)["data"]["mlModelGroup"]["relationships"]["total"]

    assert (found(gms), members()) == ([], 0)
    url = f"{gms.url}/aspects/{quote(A, safe='')}?aspect=mlModelProperties&version=0"
    assert requests.get(url, timeout=30).ok
    gms.catch_up()
    assert (found(gms), members()) == ([A], 1)


def test_reads_from_a_replica_are_stale(start: Start) -> None:
    gms = start(replica_s=math.inf)
    assert write(gms, properties()).ok
    url = f"{gms.url}/openapi/v3/entity/mlModel/batchGet?systemMetadata=true"
    body = [{"urn": A, "mlModelProperties": {}}]
    assert requests.post(url, json=body, timeout=30).json() == []
    gms.catch_up()
    assert requests.post(url, json=body, timeout=30).json()[0]["urn"] == A


# --- what it says of itself -----------------------------------------------------------------------
