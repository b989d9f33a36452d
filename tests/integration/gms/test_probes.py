"""`check --write --probe` against a DataHub server whose behaviours are switched one by one."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.cli.main import call
from mlcat_ingest.client.catalog_client import CatalogClient
from mlcat_ingest.client.probes import PROBES, UNTRIED, run_probes
from mlcat_ingest.core.findings import Finding, ProbeResult
from mlcat_ingest.net.session import HttpOptions
from mlcat_ingest.testing.gms import V0_15, V1_0, V1_6, V1_7, GmsProfile, RunningGms, running_gms
from support.catalog_server import running_catalog
from support.definitions import FeatureWorld, definitions

pytestmark = pytest.mark.integration

NO_VERSIONS = {"lacks": frozenset({"mlModel.versionProperties"})}

SWITCHES: dict[str, list[tuple[dict[str, Any], str, str]]] = {
    "failed If-Version-Match": [({"checks_versions": False}, "differs", "taken")],
    "isLatest in a proposal": [(NO_VERSIONS, "differs", "taken")],
    "version label used twice": [(NO_VERSIONS, "differs", "taken")],
    "versions in a search": [(NO_VERSIONS, "differs", "all versions")],
    "unknown aspect": [({"drops_unknown": False}, "differs", "refused")],
    "unknown field": [({"drops_unknown": False}, "differs", "stored")],
    "aspects of models": [
        ({"lacks": V0_15.lacks}, "differs", "acknowledged, not stored"),
        (
            {"lacks": frozenset({"mlModel.mlModelProperties.trainingJobs"})},
            "differs",
            "acknowledged, not stored",
        ),
    ],
    "aspects of groups and feature tables": [
        ({"lacks": V1_0.lacks}, "differs", "acknowledged, not stored"),
        (
            {"lacks": frozenset({"mlModelGroup.mlModelGroupProperties.externalUrl"})},
            "differs",
            "acknowledged, not stored",
        ),
    ],
    "evaluation of metadata tests": [({"evaluates": True}, "differs", "there")],
    "version of a new aspect": [({"numbers_first_versions": False}, "differs", "none, or another")],
    "custom property of 5,000 characters": [({"searched_characters": 9_000}, "differs", "found")],
    "relationships behind the 10,000th": [({"relationship_window": 20_000}, "differs", "taken")],
    "scroll of relationships": [({"scrolls_relationships": False}, "differs", "no such call")],
    "history of a deleted aspect": [({"keeps_deleted_versions": True}, "differs", "kept")],
    "search after a write": [({"index_refresh_s": math.inf}, "differs", "not found")],
    "URN of more than 512 bytes": [({"drops_invalid_urns": False}, "differs", "refused")],
    "environments": [
        ({"environments": frozenset({"PROD"})}, "differs", "not as in its release"),
        ({"version": None}, "differs", "not as in its release"),
    ],
    "parentheses in a URN": [({"strict_urns": False}, "differs", "refused")],
    "two new versions in one request": [(NO_VERSIONS, "differs", "none is the latest")],
    "former latest version": [(NO_VERSIONS, "differs", "none is the latest")],
    "batch with a refused proposal": [({"checks_versions": False}, "differs", "taken")],
    "read after a write": [({"replica_s": math.inf}, "differs", "acknowledged, not stored")],
    "batch of models": [({"forbids": lambda urn: ":mlModel:" in urn}, "not allowed", "")],
    "run report": [({"forbids_run_reports": True}, "not allowed", "")],
    "soft-deleted model": [
        ({"lacks": frozenset({"mlModel.status"})}, "differs", "shown"),
        ({"index_refresh_s": math.inf}, "not tried", ""),
    ],
    "first of 22 versions": [({"kept_versions": 100}, "differs", "kept")],
}
"""The changes of a server, by the fact that they concern: the outcome and the answer."""

BY_ANSWER = {
    "status of an unknown task": (b"getEsTaskStatus", {"value": '{"completed": true}'}, "found"),
    "largest GraphQL query of a run": (
        b"/api/graphql",
        {"errors": [{"message": "the query is too complex"}]},
        "refused",
    ),
}
"""The answers of a server that no option has, by the fact that they concern."""

Start = Callable[..., RunningGms]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def started(profile: GmsProfile = V1_6, around: Any = None, **changes: Any) -> RunningGms:
            changed = replace(profile, **changes)
            wrapped = around or (lambda app: app)
            return stack.enter_context(running_gms(tmp_path / "gms.db", changed, around=wrapped))

        yield started


def rows(url: str, *names: str, patience_s: float = 0.3) -> dict[str, ProbeResult]:
    """Return the rows of the facts with these names, or of all, once all entities are deleted."""
    probes = [one for one in PROBES if not names or one.name in names]
    found: dict[str, ProbeResult] = {}
    with CatalogClient(url, "", options=HttpOptions(retries=0)) as client:
        for one in run_probes(client._connection, probes=probes, patience_s=patience_s):
            if isinstance(one, ProbeResult):
                found[one.name] = one
            else:
                assert one.outcome == "ok"
    return found


def left(store: Store) -> list[str]:
    """Return the probe entities that are in a store."""
    types = (
        *("mlModel", "mlModelGroup", "mlFeatureTable", "versionSet"),
        "dataHubIngestionSource",
    )
    urns = [urn for one in types for urn in store.list_urns(one).urns]
    return [urn for urn in urns if "mlcat-ingest-check" in urn]


def test_every_fact_is_switched_here() -> None:
    names = [probe.name for probe in PROBES]
    assert len(set(names)) == len(names)
    assert {*SWITCHES, *BY_ANSWER} == set(names)


@pytest.mark.parametrize(
    ("profile", "differing"),
    [(V1_0, {"aspects of models", "aspects of groups and feature tables"}), (V1_7, set())],
    ids=["v1.0", "v1.7"],
)
def test_a_server_that_behaves_as_datahub_does(
    start: Start, profile: GmsProfile, differing: set[str]
) -> None:
    gms = start(profile)
    found = rows(gms.url, patience_s=5)
    tried = {name: one for name, one in found.items() if (one.fact, name) not in UNTRIED}
    assert {name for name, one in tried.items() if one.outcome != "as expected"} == differing
    assert {one.outcome for name, one in found.items() if name not in tried} == {"not tried"}
    assert len(found) == len(PROBES) + len(UNTRIED)
    assert left(gms.store) == []


@pytest.mark.parametrize(
    ("name", "changes", "outcome", "observed"),
    [(name, *change) for name, changes in SWITCHES.items() for change in changes],
)
def test_a_changed_behaviour_is_seen(
    start: Start, name: str, changes: dict[str, Any], outcome: str, observed: str
) -> None:
    gms = start(**changes)
    row = rows(gms.url, name)[name]
    assert (row.outcome, row.observed) == (outcome, observed)
    assert bool(row.consequence) == (outcome == "differs")
    assert left(gms.store) == []


@pytest.mark.parametrize("name", BY_ANSWER)
def test_another_answer_is_seen(start: Start, name: str) -> None:
    place, body, observed = BY_ANSWER[name]

    def around(app: ASGIApp) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            asked = scope.get("path", "").encode() + scope.get("query_string", b"")
            other = JSONResponse(body) if place in asked else app
            await other(scope, receive, send)

        return answer

    row = rows(start(around=around).url, name)[name]
    assert (row.outcome, row.observed) == ("differs", observed)


@pytest.mark.parametrize("form", ["item", "subtype", "precondition", "sentence"])
def test_a_conflict_is_recognised_in_each_form(start: Start, form: str) -> None:
    name = "failed If-Version-Match"
    row = rows(start(refusal_form=form).url, name)[name]
    assert row.outcome == "as expected"
    assert row.detail.startswith("422: Expected version 999999999, actual version 1 (")


def test_the_embedded_catalog_answers_as_documented(tmp_path: Path) -> None:
    with running_catalog(tmp_path / "catalog.db") as catalog:
        found = rows(catalog.url, patience_s=5)
        assert {one.outcome for one in found.values()} == {"as expected", "not tried"}
        assert found["unknown aspect"].expected == "refused"
        assert left(catalog.store) == []


# --- what was written is deleted ------------------------------------------------------------------


def test_probe_entities_are_deleted_where_the_caller_stops(start: Start) -> None:
    gms = start()
    with CatalogClient(gms.url, "") as client:
        results = client.probe()
        for _ in range(4):
            next(results)
        assert len(left(gms.store)) >= 4
        results.close()
    assert left(gms.store) == []


def test_a_service_that_stops_answering_is_not_tried_further(start: Start) -> None:
    gms = start()
    found: list[ProbeResult | Finding] = []
    with CatalogClient(gms.url, "", options=HttpOptions(retries=0)) as client:
        results = client.probe()
        found += [next(results), next(results), next(results)]
        gms.limit_requests(1_000, retry_after_s=0)
        found += results
    outcomes = [one.outcome for one in found if isinstance(one, ProbeResult)]
    assert outcomes[:4] == ["as expected"] * 3 + ["failed"]
    assert set(outcomes[4:]) == {"not tried"}
    named = [one.detail for one in found if isinstance(one, Finding)]
    assert [one.outcome for one in found if isinstance(one, Finding)] == ["failed"] * len(named)
    remaining = left(gms.store)
    assert remaining
    assert all(any(urn in detail for detail in named) for urn in remaining)


def test_entities_that_may_not_be_deleted_are_named(start: Start) -> None:
    def around(app: ASGIApp) -> ASGIApp:
        async def deny(scope: Scope, receive: Receive, send: Send) -> None:
            denied = JSONResponse({"message": "no", "status": 403}, 403)
            is_deletion = scope.get("path") == "/entities"
            await (denied if is_deletion else app)(scope, receive, send)

        return deny

    gms = start(around=around)
    probes = [one for one in PROBES if one.name == "read after a write"]
    with CatalogClient(gms.url, "") as client:
        [*_, finding] = run_probes(client._connection, probes=probes)
    assert isinstance(finding, Finding)
    [urn] = left(gms.store)
    assert finding.outcome == "warning"
    assert f"{urn} is soft-deleted" in finding.detail
    assert f'datahub delete --urn "{urn}" --hard' in str(finding.hint)


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code"), [({"forbids_run_reports": True}, 0), ({"evaluates": True}, 4)]
)
def test_the_exit_status_says_whether_something_differs(
    start: Start,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    code: int,
) -> None:
    gms = start(**changes)
    features = FeatureWorld(tmp_path, gms.url)
    features.write(definitions())
    recipe = features.recipe(features.source())
    assert call(["check", recipe, "--write", "--probe", "--json"]) == code
    answer = json.loads(capsys.readouterr().out)
    assert answer["differ"] == (code == 4)
    by_name = {row["name"]: row for row in answer["facts"]}
    assert len(by_name) == len(PROBES) + len(UNTRIED)
    evaluation = by_name["evaluation of metadata tests"]
    assert (evaluation["outcome"] == "differs") == (code == 4)
    assert left(gms.store) == []
