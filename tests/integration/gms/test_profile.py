"""The GMS profile answers as its options say; what has arrived is read from the store behind it."""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from support.fakes import group_urn, model_urn
from support.gms import V1_0, V1_6, V1_7, GmsProfile, RunningGms, running_gms
from support.recorded_requests import proposal

pytestmark = pytest.mark.integration

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


def test_an_aspect_that_is_too_large_is_a_400(start: Start) -> None:
    gms = start(aspect_bytes=1_000)
    answer = write(gms, properties(description="x" * 2_000))
    assert answer.status_code == 400
    assert "exceeds threshold of 1000 bytes" in answer.json()["message"]
    assert stored(gms) == {}


def test_a_spurious_refusal_of_versions(start: Start) -> None:
    gms = start(V1_0)
    version = {"versionSet": "urn:li:versionSet:(s,mlModel)", "version": {"versionTag": "1"}}
    write_version = proposal(A, "versionProperties", {**version, "sortId": "0001"})
    gms.refuse_versions(1)
    assert write(gms, properties()).ok
    refused = write(gms, write_version)
    assert refused.status_code == 422
    assert "msg=IsLatest should not be specified" in refused.json()["message"]
    assert write(gms, write_version).ok


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


def test_several_new_versions_in_one_request_are_all_the_latest(start: Start) -> None:
    gms = start()
    assert write(gms, version(1)).ok
    assert write(gms, version(2), version(4), version(3)).ok
    assert latest(gms) == ({2, 3, 4}, model_urn("scorer_3"))
    assert write(gms, version(5), version(1)).ok
    assert latest(gms) == ({2, 4, 5}, model_urn("scorer_5"))


def test_an_old_version_that_is_written_again_is_found_again(start: Start) -> None:
    gms = start()
    for number in (1, 2):
        assert write(gms, version(number)).ok
    assert write(gms, version(1, comment="c")).ok
    assert "isLatest" not in stored(gms, model_urn("scorer_1"))["versionProperties"]
    assert set(found(gms)) == {model_urn("scorer_1"), model_urn("scorer_2")}


# --- privileges and faults ------------------------------------------------------------------------


def test_one_forbidden_urn_refuses_the_batch_by_name(start: Start) -> None:
    gms = start(forbids=lambda urn: urn == B)
    answer = write(gms, properties(A), properties(B))
    assert answer.status_code == 403
    assert B in answer.json()["message"]
    assert A not in answer.json()["message"]
    assert stored(gms, A) == {}
    assert write(gms, properties(A)).ok


def test_run_reports_need_a_privilege_of_their_own(start: Start) -> None:
    gms = start(forbids_run_reports=True)
    report = proposal("urn:li:dataHubIngestionSource:s", "dataHubIngestionSourceInfo", {})
    assert write(gms, properties(), report).status_code == 403
    assert write(gms, properties()).ok


@pytest.mark.parametrize(("profile", "status"), [(V1_6, 500), (V1_7, 503)])
def test_exhausted_retries(start: Start, profile: GmsProfile, status: int) -> None:
    gms = start(profile)
    gms.fail_writes(2, retry_after_s=7)
    answers = [write(gms, properties()) for _ in range(3)]
    assert [one.status_code for one in answers] == [status, status, 200]
    assert answers[0].headers.get("Retry-After") == ("7" if status == 503 else None)


def test_a_rate_limit(start: Start) -> None:
    gms = start()
    gms.limit_requests(1)
    assert requests.get(f"{gms.url}/config", timeout=30).ok
    answer = write(gms, properties())
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "60")
    assert write(gms, properties()).ok


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


@pytest.mark.parametrize(
    "urn", [model_urn("a %28b%29"), model_urn("x" * 440), "urn:li:tag:a%2Cb", group_urn("a/b")]
)
def test_a_proposal_with_a_valid_urn_is_stored(start: Start, urn: str) -> None:
    gms = start()
    assert write(gms, proposal(urn, "status", {"removed": False})).ok
    assert gms.store.exists([urn]) == {urn}


@pytest.mark.parametrize(
    ("profile", "env", "is_known"),
    [
        (V1_0, "SBX", False),
        (V1_6, "SBX", True),
        (V1_0, "SANDBOX", True),
        (V1_6, "CERT", False),
        (V1_7, "CERT", True),
    ],
)
def test_environments_by_release(
    start: Start, profile: GmsProfile, env: str, *, is_known: bool
) -> None:
    gms = start(profile)
    urn = A.replace("PROD", env)
    assert write(gms, properties(urn)).ok
    assert (gms.store.exists([urn]) == {urn}) == is_known


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


def test_an_index_that_refreshes_by_itself(start: Start) -> None:
    gms = start(index_refresh_s=0.2)
    assert write(gms, properties()).ok
    time.sleep(0.3)
    assert found(gms) == [A]


def test_reads_from_a_replica_are_stale(start: Start) -> None:
    gms = start(replica_s=math.inf)
    assert write(gms, properties()).ok
    url = f"{gms.url}/openapi/v3/entity/mlModel/batchGet?systemMetadata=true"
    body = [{"urn": A, "mlModelProperties": {}}]
    assert requests.post(url, json=body, timeout=30).json() == []
    gms.catch_up()
    assert requests.post(url, json=body, timeout=30).json()[0]["urn"] == A


def test_only_so_many_versions_can_be_read(start: Start) -> None:
    gms = start(kept_versions=2)
    for at in range(3):
        assert write(gms, properties(description=str(at))).ok
    url = f"{gms.url}/aspects/{quote(A, safe='')}?aspect=mlModelProperties&version="
    statuses = [requests.get(f"{url}{at}", timeout=30).status_code for at in (0, 1, 2, 3)]
    assert statuses == [200, 404, 200, 404]


def test_aspects_written_once_may_have_no_version(start: Start) -> None:
    gms = start(numbers_first_versions=False)
    url = f"{gms.url}/openapi/v3/entity/mlModel/batchGet?systemMetadata=true"

    def version() -> str | None:
        [read] = requests.post(url, json=[{"urn": A, "mlModelProperties": {}}], timeout=30).json()
        system: dict[str, str] = read["mlModelProperties"]["systemMetadata"]
        return system.get("version")

    assert write(gms, properties(expected="-1")).ok
    assert version() is None
    assert write(gms, properties(expected="1", description="e")).ok
    assert version() == "2"


def test_what_the_token_may_not_view_is_listed_and_not_read(start: Start) -> None:
    gms = start(denies_reads=B.__eq__)
    assert write(gms, properties(A), properties(B)).ok
    assert sorted(found(gms)) == [A, B]
    url = f"{gms.url}/openapi/v3/entity/mlModel/batchGet"
    asked = [{"urn": one, "mlModelProperties": {}} for one in (A, B)]
    assert requests.post(url, json=asked[:1], timeout=30).ok
    refused = requests.post(url, json=asked, timeout=30)
    assert refused.status_code == 403
    assert B not in refused.text


def test_garbage_is_collected(start: Start) -> None:
    gms = start()
    assert write(gms, properties(A), proposal(B, "status", {"removed": True})).ok
    gms.collect_garbage()
    assert gms.store.exists([A, B]) == {A}


def test_relationships_end_at_the_window(start: Start) -> None:
    gms = start(relationship_window=10)
    assert write(gms, properties(groups=[GROUP]), proposal(GROUP, "status", {"removed": False})).ok

    def page(start: int) -> Any:
        return query(
            gms,
            f'{{ mlModelGroup(urn: "{GROUP}") {{ relationships(input: {{types: ["MemberOf"], '
            f"direction: INCOMING, start: {start}, count: 5}}) {{ total }} }} }}",
        )

    assert page(5)["data"]["mlModelGroup"]["relationships"]["total"] == 1
    assert page(6)["errors"][0]["extensions"]["code"] == 500


# --- what it says of itself -----------------------------------------------------------------------


@pytest.mark.parametrize("evaluates", [True, False])
def test_whether_metadata_tests_are_evaluated(start: Start, *, evaluates: bool) -> None:
    gms = start(evaluates=evaluates)
    assert write(gms, properties()).ok
    answer = requests.post(
        f"{gms.url}/test?action=evaluate", json={"urn": A, "shouldPush": True}, timeout=30
    )
    assert answer.status_code == (200 if evaluates else 404)


@pytest.mark.parametrize("version", ["v1.6.0", None])
def test_config_names_a_version(start: Start, version: str | None) -> None:
    gms = start(version=version)
    config = requests.get(f"{gms.url}/api/gms/config", timeout=30).json()
    named = config["versions"].get("acryldata/datahub")
    assert named == (None if version is None else {"version": version})


def test_it_shows_what_it_saw(start: Start) -> None:
    gms = start()
    write(gms, properties(A), properties(B))
    write(gms, proposal(A, "status", {"removed": True}))
    assert len(gms.calls("/aspects", "ingestProposalBatch")) == 2
    first, second = gms.calls("/aspects")
    assert (first.method, first.json()["async"]) == ("POST", "false")
    assert [one["entityUrn"] for one in first.proposals] == [A, B]
    assert json.loads(second.proposals[0]["aspect"]["value"]) == {"removed": True}
