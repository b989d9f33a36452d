"""The REST reader against a server that answers as a script says."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import pytest

from mlcat_ingest.errors import (
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    SourceUnavailableError,
)
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read import listing as listings
from mlcat_ingest.sources.mlflow.read.listing import (
    FIRST_RUNS,
    PAGE_BYTES,
    SLICE_BYTES,
    offset_token,
)
from mlcat_ingest.sources.mlflow.read.reader import (
    FileLocation,
    MlflowObject,
    ModelFilter,
    RunFilter,
)
from mlcat_ingest.sources.mlflow.read.rest import RestReader
from mlcat_ingest.testing.service import (
    FailingService,
    ServiceAnswer,
    ServiceRequest,
    failing_service,
)
from support.certificates import make_certificate
from support.fake_service import web_page

pytestmark = pytest.mark.process

PROMPT = [{"key": "mlflow.prompt.is_prompt", "value": "true"}]
NOT_FOUND = web_page("<title>404 Not Found</title>", 404)


def as_json(value: Any, status: int = 200) -> ServiceAnswer:
    return ServiceAnswer(status, json.dumps(value).encode())


def refusal(code: str, status: int, message: str = "because") -> ServiceAnswer:
    return as_json({"error_code": code, "message": message}, status)


def mlflow(**listings: Any) -> Callable[[ServiceRequest], ServiceAnswer]:
    """Return the script of an MLflow server; a listing is an answer, or a value for its page."""

    def answer(request: ServiceRequest) -> ServiceAnswer:
        name = urlsplit(request.path).path.rpartition("/mlflow/")[2].removesuffix("/search")
        found = listings.get(name.replace("-", "_"), {} if request.path != "/version" else None)
        if callable(found):
            found = found(request)
        return found if isinstance(found, ServiceAnswer) else as_json(found)

    return answer


def experiment(number: int, **more: Any) -> dict[str, Any]:
    return {"experiment_id": str(number), "name": f"e{number}", **more}


def run(number: int, **more: Any) -> dict[str, Any]:
    info = {"run_id": f"r{number}", "experiment_id": "1", "start_time": number, **more}
    return {"info": info}


def reader_of(server: FailingService, **config: Any) -> RestReader:
    given = {"tracking_uri": server.url, "retries": 0, "timeout_s": 10, **config}
    return RestReader(MlflowConfig.model_validate(given))


def paths(server: FailingService) -> list[str]:
    return [urlsplit(one.path).path for one in server.requests]


def test_experiments_are_listed_once_and_kept() -> None:
    pages = {
        "": {"experiments": [experiment(0, creation_time=5)], "next_page_token": "a"},
        "a": {"experiments": [experiment(0), experiment(1)]},
    }

    def listed(request: ServiceRequest) -> Any:
        query = parse_qs(urlsplit(request.path).query)
        assert query["view_type"] == ["ALL"]
        return pages[query.get("page_token", [""])[0]]

    with failing_service(mlflow(experiments=listed)) as server:
        reader = reader_of(server)
        for _ in range(2):
            found = [[one.experiment_id for one in page] for page in reader.experiments()]
            assert found == [["0"], ["1"]]
        assert len(reader.server_id()) == 12
        assert len(server.requests) == reader.connection.requests_made() == 2


def test_the_server_is_reported_by_its_first_experiment() -> None:
    listing = {"experiments": [experiment(0, creation_time="1700000000000"), experiment(1)]}
    with failing_service(mlflow(experiments=listing)) as server:
        reader = reader_of(server)
        assert [reader.server_id() for _ in range(2)] == [sha("1700000000000")] * 2
        assert len(server.requests) == 1
        assert reader_of(server, server_id="mine").server_id() == "mine"
    with failing_service(mlflow(experiments={"experiments": [experiment(0)]})) as server:
        assert reader_of(server).server_id() == sha(server.url)
        assert reader_of(server, tracking_uri=server.url + "/").server_id() == sha(server.url)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def test_versions_are_not_asked_for_without_registered_models() -> None:
    prompt = {"registered_models": [{"name": "p", "tags": PROMPT}]}
    for models in ({}, prompt):
        with failing_service(mlflow(registered_models=models)) as server:
            reader = reader_of(server)
            assert list(reader.model_versions()) == []
            assert [one for page in reader.registered_models() for one in page] == []
            assert len(server.requests) == 1


def test_prompts_are_skipped_and_aliases_joined() -> None:
    models = {
        "registered_models": [
            {"name": "m", "aliases": [{"alias": "champion", "version": "2"}]},
            {"name": "p", "tags": PROMPT},
        ]
    }
    versions = {
        "model_versions": [
            {"name": "m", "version": "2", "aliases": ["stale"]},
            {"name": "p", "version": "1"},
            {"name": "q", "version": "1", "tags": PROMPT},
            {"name": "late", "version": "1"},
        ]
    }
    with failing_service(mlflow(registered_models=models, model_versions=versions)) as server:
        found = [one for page in reader_of(server).model_versions() for one in page]
        assert [(one.name, one.aliases) for one in found] == [("m", ("champion",)), ("late", ())]


def test_a_registry_of_its_own_is_asked_for_models() -> None:
    models = {"registered_models": [{"name": "m"}]}
    with (
        failing_service(mlflow()) as tracking,
        failing_service(mlflow(registered_models=models)) as registry,
    ):
        reader = reader_of(tracking, registry_uri=registry.url)
        assert [[one.name for one in page] for page in reader.registered_models()] == [["m"]]
        list(reader.model_versions())
        assert (len(tracking.requests), len(registry.requests)) == (0, 2)
        assert reader.connection.requests_made() == 2
        reader.connection.close()
        reader.connection.close()


def test_runs_are_asked_for_with_all_experiments_at_once() -> None:
    with failing_service(mlflow(runs={"runs": [run(1), run(2)]})) as server:
        only = RunFilter(since_ms=7, statuses=("FAILED",))
        found = list(reader_of(server, page_size=10).runs(["1", "2"], only=only))
        assert [[one.run_id for one in page] for page in found] == [["r1", "r2"]]
        (request,) = server.requests
        assert json.loads(request.body) == {
            "experiment_ids": ["1", "2"],
            "run_view_type": "ALL",
            "max_results": 10,
            "order_by": ["attributes.start_time ASC"],
            "filter": "attributes.start_time >= 7 AND attributes.status = 'FAILED'",
        }


def test_of_large_runs_fewer_are_asked_for_at_a_time() -> None:
    def wide(number: int) -> dict[str, Any]:
        return {**run(number), "data": {"params": [{"key": "k", "value": "v" * 50_000}]}}

    with failing_service(mlflow(runs=paged_runs(400, wide))) as server:
        pages = [len(page) for page in reader_of(server).runs(["1"])]
        asked = [json.loads(request.body)["max_results"] for request in server.requests]
    fitting, together = PAGE_BYTES // 50_100, SLICE_BYTES // 50_100
    assert asked[0] == FIRST_RUNS
    assert set(asked[1:]) <= {fitting, fitting + 1}
    assert sum(pages) == 400
    assert max(pages) <= together + 1


def test_very_many_experiments_take_several_listings() -> None:
    with failing_service(mlflow()) as server:
        list(reader_of(server).runs([str(number) for number in range(4_001)]))
        asked = [len(json.loads(request.body)["experiment_ids"]) for request in server.requests]
        assert asked == [2_000, 2_000, 1]


def test_no_experiments_take_no_request() -> None:
    with failing_service(mlflow()) as server:
        reader = reader_of(server)
        assert list(reader.runs([])) == []
        assert list(reader.logged_models([])) == []
        assert server.requests == []


def paged_runs(
    count: int, make: Callable[[int], dict[str, Any]] = run
) -> Callable[[ServiceRequest], Any]:
    tokens = {offset_token(offset): offset for offset in range(count * 3)}

    def listed(request: ServiceRequest) -> Any:
        body = json.loads(request.body)
        start = tokens[body["page_token"]] if "page_token" in body else 0
        end = start + body["max_results"]
        found = {"runs": [make(number) for number in range(start, min(end, count))]}
        return {**found, "next_page_token": offset_token(end)} if end < count else found

    return listed


def test_a_limit_asks_for_no_more_than_it_needs() -> None:
    with failing_service(mlflow(runs=paged_runs(100))) as server:
        reader = reader_of(server, page_size=10)
        for limit, requests in ((3, 1), (10, 1), (25, 3)):
            server.requests.clear()
            found = [
                one for page in reader.runs(["1"], only=RunFilter(limit=limit)) for one in page
            ]
            assert (len(found), len(server.requests)) == (limit, requests)
        assert json.loads(server.requests[0].body)["order_by"] == ["attributes.start_time DESC"]


def test_several_statuses_are_picked_here() -> None:
    runs = {"runs": [run(1, status="FAILED"), run(2, status="KILLED"), run(3, status="RUNNING")]}
    with failing_service(mlflow(runs=runs)) as server:
        only = RunFilter(statuses=("RUNNING", "FAILED"))
        found = [one.run_id for page in reader_of(server).runs(["1"], only=only) for one in page]
        assert found == ["r1", "r3"]
        assert "filter" not in json.loads(server.requests[0].body)


def test_a_limit_holds_over_several_listings() -> None:
    with failing_service(mlflow(runs={"runs": [run(1), run(2)]})) as server:
        ids = [str(number) for number in range(4_001)]
        found = list(reader_of(server).runs(ids, only=RunFilter(limit=3)))
        assert sum(map(len, found)) == 2
        assert len(server.requests) == 3


def test_a_page_token_that_comes_again_names_the_listing() -> None:
    endless = {"runs": [run(1)], "next_page_token": "again"}
    with failing_service(mlflow(runs=endless)) as server:
        with pytest.raises(ProtocolMismatchError, match=r"listing of runs returned"):
            list(reader_of(server).runs(["1"]))
        assert len(server.requests) == 2


@pytest.mark.parametrize("listing", ["runs", "experiments", "registered-models", "logged-models"])
def test_a_listing_that_goes_on_without_anything_new_is_named(listing: str) -> None:
    tokens = (offset_token(number) for number in range(1, 100))
    items: dict[str, Any] = {
        "runs": run(1),
        "experiments": experiment(1),
        "registered-models": {"name": "m"},
        "logged-models": {"info": {"model_id": "m-1", "experiment_id": "1"}},
    }
    key = {"registered-models": "registered_models", "logged-models": "models"}.get(
        listing, listing
    )

    def listed(_: ServiceRequest) -> Any:
        return {key: [items[listing]], "next_page_token": next(tokens)}

    with failing_service(mlflow(**{listing.replace("-", "_"): listed})) as server:
        reader = reader_of(server)
        read = getattr(reader, listing.replace("-", "_"))
        with pytest.raises(ProtocolMismatchError, match=f"listing of {listing} returned 20 pages"):
            list(read() if read.__code__.co_argcount == 1 else read(["1"]))
        assert len(server.requests) <= 25


@pytest.mark.parametrize("limit", ["MOST_KEPT", "MOST_KEPT_PAGES"])
@pytest.mark.parametrize("listing", ["experiments", "registered-models"])
def test_a_listing_of_ever_new_items_ends(
    listing: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, limit, 10)
    numbers = iter(range(1, 100))

    def listed(_: ServiceRequest) -> Any:
        number = next(numbers)
        items = {"experiments": experiment(number), "registered-models": {"name": f"m{number}"}}
        key = listing.replace("-", "_")
        return {key: [items[listing]], "next_page_token": offset_token(number)}

    with failing_service(mlflow(**{listing.replace("-", "_"): listed})) as server:
        with pytest.raises(ProtocolMismatchError, match=f"listing of {listing} does not end"):
            list(getattr(reader_of(server), listing.replace("-", "_"))())
        assert len(server.requests) == 11


@pytest.mark.parametrize("token", [{"offset": 1}, 7])
def test_a_page_token_that_is_no_text_names_the_listing(token: object) -> None:
    page = {"experiments": [experiment(0)], "next_page_token": token}
    with (
        failing_service(mlflow(experiments=page)) as server,
        pytest.raises(ProtocolMismatchError, match="listing of experiments returned a page token"),
    ):
        list(reader_of(server).experiments())


def test_logged_models_are_paged_and_missing_before_mlflow_3() -> None:
    def listed(request: ServiceRequest) -> Any:
        token = json.loads(request.body).get("page_token")
        info = {"model_id": f"m-{token}", "experiment_id": "1"}
        return {"models": [{"info": info}], **({} if token else {"next_page_token": "x"})}

    with failing_service(mlflow(logged_models=listed)) as server:
        found = [one.model_id for page in reader_of(server).logged_models(["1"]) for one in page]
        assert found == ["m-None", "m-x"]
    for missing in (NOT_FOUND, refusal("ENDPOINT_NOT_FOUND", 404), ServiceAnswer(405, b"")):
        with failing_service(mlflow(logged_models=missing)) as server:
            reader = reader_of(server)
            assert list(reader.logged_models(["1"])) == [[]]
            assert list(reader.logged_models(["1"])) == [[]]
            assert len(server.requests) == 1, "a server without the endpoint is asked once"
    with (
        failing_service(mlflow(logged_models=refusal("RESOURCE_DOES_NOT_EXIST", 404))) as server,
        pytest.raises(ProtocolMismatchError, match=r"refused the listing of logged-models"),
    ):
        list(reader_of(server).logged_models(["1"]))


def test_the_newest_external_models_are_asked_for_and_no_more() -> None:
    def listed(request: ServiceRequest) -> Any:
        asked.append(json.loads(request.body))
        made = [{"info": {"model_id": f"m-{n}", "experiment_id": "1"}} for n in range(2)]
        return {"models": made, "next_page_token": "x"}

    asked: list[Any] = []
    with failing_service(mlflow(logged_models=listed)) as server:
        pages = reader_of(server).logged_models(["1"], only=ModelFilter(newest_external=2))
        assert [one.model_id for page in pages for one in page] == ["m-0", "m-1"]
    [body] = asked
    assert (body["max_results"], body["filter"]) == (2, "tags.`mlflow.model.isExternal` = 'true'")
    assert body["order_by"] == [{"field_name": "creation_timestamp", "ascending": False}]


# --- workspaces ----------------------------------------------------------------------------------

INFO = {"workspaces_enabled": True}
NAMES = {"workspaces": [{"name": "b"}, {"name": "default"}, {"name": "a"}]}


@pytest.mark.parametrize(
    "info",
    [{"workspaces_enabled": False}, {}, NOT_FOUND, refusal("X", 403), ServiceAnswer(500, b"")],
)
def test_a_server_without_workspaces_has_the_default_one(info: Any) -> None:
    with failing_service(mlflow(server_info=info)) as server:
        reader = reader_of(server)
        [here] = reader.workspaces()
        assert here.workspace == "default"
        list(here.experiments())
        assert paths(server)[0] == "/api/3.0/mlflow/server-info"
        assert "X-MLFLOW-WORKSPACE" not in server.requests[-1].headers
        assert len(server.requests) == 2


def test_what_a_server_lacks_is_asked_for_once() -> None:
    with failing_service(mlflow(logged_models=NOT_FOUND)) as server:
        reader = reader_of(server)
        for here in (reader, reader, RestReader(reader._config, reader.connection, "other")):
            assert not any(here.logged_models(["1"]))
        assert paths(server) == ["/api/2.0/mlflow/logged-models/search"]


def test_pages_that_a_server_filters_by_permission_are_read_to_the_last() -> None:
    # MLflow's basic-auth leaves out what the user may not read, and fills up a page only at times.
    sizes = [1, 0, 0, 0, 1, 0]

    def listed(request: ServiceRequest) -> Any:
        at = int(parse_qs(urlsplit(request.path).query).get("page_token", ["0"])[0])
        more = {"next_page_token": str(at + 1)} if at + 1 < len(sizes) else {}
        return {"experiments": [experiment(at)] * sizes[at], **more}

    with failing_service(mlflow(experiments=listed)) as server:
        pages = list(reader_of(server).experiments())
    assert [one.experiment_id for page in pages for one in page] == ["0", "4"]


def test_each_request_names_its_workspace() -> None:
    with failing_service(mlflow(server_info=INFO, workspaces=NAMES)) as server:
        reader = reader_of(server)
        _, here, other = reader.workspaces()
        assert [here.workspace, other.workspace] == ["a", "b"]
        list(here.experiments())
        list(here.runs(["1"]))
        assert [one.headers["X-MLFLOW-WORKSPACE"] for one in server.requests[2:]] == ["a", "a"]
        here.server_id()
        assert server.requests[-1].headers["X-MLFLOW-WORKSPACE"] == "default"
        assert here.connection.requests_made() == len(server.requests) == 5


def test_workspaces_that_are_named_are_read_though_mlflow_does_not_list_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_WORKSPACE", "mine")
    there = {"mine", "hidden", "a", "b"}

    def experiments(request: ServiceRequest) -> Any:
        name = request.headers.get("X-MLFLOW-WORKSPACE", "a")
        missing = refusal("RESOURCE_DOES_NOT_EXIST", 404)
        return {} if name in there else refusal("X", 403) if name == "shut" else missing

    allowed = ["a", "hidden", "shut$", "gone", "mi.*"]
    with failing_service(
        mlflow(server_info=INFO, workspaces=NAMES, experiments=experiments)
    ) as server:
        reader = reader_of(server, workspaces={"allow": allowed})
        assert [one.workspace for one in reader.workspaces()] == [
            *("default", "a", "b", "hidden", "mine")
        ]
        asked = [MlflowObject("workspace", name) for name in ("hidden", "shut", "gone")]
        assert list(map(reader.is_gone, asked)) == [False, False, True]


def test_each_page_that_is_waited_for_has_a_number() -> None:
    waiting: list[str] = []
    numbers = iter([50, 100, 150])

    def listed(_: ServiceRequest) -> Any:
        pending = reader.connection.pending_request()
        waiting.append("" if pending is None else pending.what)
        n = next(numbers)
        runs = [run(at) for at in range(n, n + 50)]
        return {"runs": runs, **({"next_page_token": f"t{n}"} if n < 150 else {})}

    with failing_service(mlflow(runs=listed)) as server:
        reader = reader_of(server)
        assert sum(map(len, reader.runs(["1"]))) == 150
    assert waiting == ["page 1 of runs", "page 2 of runs", "page 3 of runs"]


# --- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "error", "sentence"),
    [
        (refusal("PERMISSION_DENIED", 403), NotAuthorizedError, "experiments: because"),
        (refusal("INTERNAL_ERROR", 500, "a\n b"), SourceUnavailableError, "failed with 500: a b"),
        (ServiceAnswer(503, b"busy"), SourceUnavailableError, "failed with 503"),
        (NOT_FOUND, ProtocolMismatchError, "no MLflow server at .*: 404"),
        (ServiceAnswer(404, b"[]"), ProtocolMismatchError, "no MLflow server at .*: 404"),
        (refusal("INVALID_PARAMETER_VALUE", 400), ProtocolMismatchError, "refused .* 400: because"),
        (as_json({"error_code": "X", "message": 3}, 418), ProtocolMismatchError, "with 418"),
        (as_json([1]), ProtocolMismatchError, "JSON that is not an object"),
        (as_json({"jobs": []}), ProtocolMismatchError, "not an MLflow listing"),
        (as_json({"experiments": 3}), ProtocolMismatchError, "not an MLflow listing"),
    ],
)
def test_every_failure_is_one_clear_sentence(
    answer: ServiceAnswer, error: type[MlcatError], sentence: str
) -> None:
    with failing_service(mlflow(experiments=answer)) as server:
        url = server.url.replace("//", "//ada:hunter2@")
        with pytest.raises(error, match=sentence) as reported:
            list(reader_of(server, tracking_uri=url).experiments())
        assert "\n" not in str(reported.value)
        assert "hunter2" not in str(reported.value)


HOST_CHECK = b"Invalid Host header - possible DNS rebinding attack detected"
PROXY = "a proxy or firewall in front of MLflow"
DENIALS = [
    (ServiceAnswer(403, HOST_CHECK), "attack detected", "--allowed-hosts 127.0.0.1:"),
    (ServiceAnswer(403, b"Permission denied"), "denied the listing", "grant the user read access"),
    (refusal("PERMISSION_DENIED", 403), "because", "grant the user read access"),
    (ServiceAnswer(403, b"RBAC: access denied\nmore"), r": RBAC: access denied \(", PROXY),
    (as_json({"message": "Forbidden"}, 403), ": Forbidden", PROXY),
    (ServiceAnswer(403, b""), r"denied the listing of experiments \(", PROXY),
    (
        web_page("<html>\n<title>Blocked by WAF 77</title>", 403),
        ": Blocked by WAF 77",
        "login page",
    ),
    (
        web_page("<style>a{}</style><h1>Sign in</h1>"),
        "a web page instead of JSON, twice: Sign in",
        "login",
    ),
    (
        ServiceAnswer(401, b"Invalid IAP credentials"),
        r"\(401\): Invalid IAP cred",
        "check the token",
    ),
    (
        ServiceAnswer(401, headers={"WWW-Authenticate": "Basic"}),
        r"refused the credentials \(401\)",
        "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
    ),
    (web_page("<h1>502</h1> Bad Gateway", 502), "failed with 502: 502 Bad Gateway", "log"),
]


@pytest.mark.parametrize(("answer", "words", "cure"), DENIALS)
def test_a_denial_shows_what_the_body_says_and_names_the_cure(
    answer: ServiceAnswer, words: str, cure: str
) -> None:
    with (
        failing_service(mlflow(experiments=answer)) as server,
        pytest.raises(MlcatError, match=words) as reported,
    ):
        list(reader_of(server).experiments())
    assert cure in (reported.value.hint or "")


def test_a_listing_that_fails_once_is_asked_for_again() -> None:
    answers = iter([refusal("INTERNAL_ERROR", 500), as_json({"experiments": [experiment(3)]})])
    with failing_service(mlflow(experiments=lambda _: next(answers))) as server:
        found = list(reader_of(server, retries=1).experiments())
    assert [[one.experiment_id for one in page] for page in found] == [["3"]]


@pytest.mark.parametrize("refused", [False, True])
def test_an_api_above_the_prefix_is_used_and_files_stay_below(*, refused: bool) -> None:
    answers = mlflow(experiments=refusal("X", 400) if refused else {"experiments": [experiment(1)]})

    def answer(request: ServiceRequest) -> ServiceAnswer:
        return answers(request) if request.path.startswith("/api/") else NOT_FOUND

    with failing_service(answer) as server:
        reader = reader_of(server, tracking_uri=f"{server.url}/mlflow")
        with suppress(ProtocolMismatchError):
            list(reader.experiments())
        reader.connection.close()
        probe = "/api/2.0/mlflow/experiments/search"
        assert paths(server) == [f"/mlflow{probe}", probe, probe]
        assert reader.connection.requests_made() == 3
        assert reader.connection.tracking.base_url == server.url
        assert reader.connection.pages.base_url == f"{server.url}/mlflow"


@pytest.mark.parametrize("elsewhere", [NOT_FOUND, as_json({"jobs": []}), web_page()])
def test_another_service_above_the_prefix_is_no_api(elsewhere: ServiceAnswer) -> None:
    def answer(request: ServiceRequest) -> ServiceAnswer:
        return elsewhere if request.path.startswith("/api/") else NOT_FOUND

    with failing_service(answer) as server:
        reader = reader_of(server, tracking_uri=f"{server.url}/mlflow")
        with pytest.raises(ProtocolMismatchError, match=r"no MLflow server at .*/mlflow/api/"):
            list(reader.experiments())


# --- assets ---------------------------------------------------------------------------------------

UNEXPECTED = ServiceAnswer(500, b"Internal Server Error")
BROKEN = refusal("INTERNAL_ERROR", 500)


def servers_of(answers: Callable[[ServiceRequest], ServiceAnswer]) -> tuple[list[str], list[Any]]:
    """Return the names of the MCP servers that are read, and what names those that are refused."""
    with failing_service(answers) as server:
        reader = reader_of(server, retries=3)
        names = [one.name for one in reader.assets("mcp server") or ()]
        return names, [one.ids for one in reader.refusals.take()]


@pytest.mark.parametrize(
    "answer", [NOT_FOUND, refusal("PERMISSION_DENIED", 403), UNEXPECTED, BROKEN]
)
def test_an_asset_whose_versions_cannot_be_read_is_refused_alone(answer: ServiceAnswer) -> None:
    def answers(request: ServiceRequest) -> ServiceAnswer:
        if request.path.partition("?")[0].endswith("/mcp-servers"):
            return as_json({"mcp_servers": [{"name": "a/b"}, {"name": "c/d"}]})
        return answer if "a/b" in request.path else as_json({"mcp_server_versions": []})

    assert servers_of(answers) == (["c/d"], [("a/b",)])


@pytest.mark.parametrize(
    ("answer", "servers", "error"),
    [
        (web_page("", 502), 1, SourceUnavailableError),
        (BROKEN, 21, SourceUnavailableError),
        (refusal("PERMISSION_DENIED", 403), 21, NotAuthorizedError),
    ],
)
def test_versions_that_a_server_does_not_answer_for_end_the_listing(
    answer: ServiceAnswer, servers: int, error: type[MlcatError]
) -> None:
    def answers(request: ServiceRequest) -> ServiceAnswer:
        if request.path.partition("?")[0].endswith("/mcp-servers"):
            return as_json({"mcp_servers": [{"name": f"a/{at}"} for at in range(servers)]})
        return answer

    with failing_service(answers) as server, pytest.raises(error):
        reader_of(server).assets("mcp server")


@pytest.mark.parametrize("answer", [UNEXPECTED, BROKEN])
def test_an_asset_that_cannot_be_listed_is_left_out_alone(answer: ServiceAnswer) -> None:
    def answers(request: ServiceRequest) -> ServiceAnswer:
        parts = urlsplit(request.path)
        if parts.path.endswith("/versions"):
            return as_json({"mcp_server_versions": []})
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        count, start = int(query["max_results"]), 0
        while query.get("page_token", offset_token(0)) != offset_token(start):
            start += 1
        if start <= 5 < start + count:
            return answer
        names = [{"name": f"a/{at}"} for at in range(start, min(8, start + count))]
        after = offset_token(start + count) if start + count < 8 else None
        return as_json({"mcp_servers": names, "next_page_token": after})

    assert servers_of(answers) == ([f"a/{at}" for at in (0, 1, 2, 3, 4, 6, 7)], [()])


def test_an_asset_that_is_deleted_while_it_is_read_has_no_versions() -> None:
    answers = {"/mcp-servers": as_json({"mcp_servers": [{"name": "a/b"}]})}
    gone = refusal("RESOURCE_DOES_NOT_EXIST", 404)

    def answer(request: ServiceRequest) -> ServiceAnswer:
        return answers.get(urlsplit(request.path).path.rpartition("/mlflow")[2], gone)

    assert servers_of(answer) == (["a/b"], [])


def test_refused_skills_of_one_name_are_named_with_their_organizations() -> None:
    skills = [{"name": "s", "organization": "a"}, {"name": "s", "organization": "b"}, {}, "odd"]

    def answers(request: ServiceRequest) -> ServiceAnswer:
        is_listing = urlsplit(request.path).path.endswith("/skills")
        return as_json({"skills": skills}) if is_listing else BROKEN

    with failing_service(answers) as server:
        reader = reader_of(server)
        assert reader.assets("skill") == []
        ids = {one.ids for one in reader.refusals.take()}
    assert ids == {("@a/s",), ("@b/s",), ()}


@pytest.mark.parametrize(
    ("answer", "asked", "others"),
    [
        (refusal("RESOURCE_DOES_NOT_EXIST", 404), ["gone", "gone", None], []),
        (NOT_FOUND, ["gone"], None),
        (refusal("ENDPOINT_NOT_FOUND", 404), ["gone"], None),
    ],
)
def test_a_workspace_that_is_gone_takes_the_assets_of_no_other(
    answer: ServiceAnswer, asked: list[str | None], others: list[Any] | None
) -> None:
    def answers(request: ServiceRequest) -> ServiceAnswer:
        is_gone = request.headers.get("X-MLFLOW-WORKSPACE") == "gone"
        return answer if is_gone else as_json({"skills": []})

    with failing_service(answers) as server:
        reader = reader_of(server)
        gone = RestReader(reader._config, reader.connection, "gone")
        assert [gone.assets("skill"), gone.assets("skill")] == [None, None]
        assert reader.assets("skill") == others
        assert [one.headers.get("X-MLFLOW-WORKSPACE") for one in server.requests] == asked


# --- failures that pass ---------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [UNEXPECTED, BROKEN])
@pytest.mark.parametrize("kind", ["run", "model"])
def test_a_listing_of_files_that_fails_once_is_asked_for_again(
    kind: Literal["run", "model"], failure: ServiceAnswer
) -> None:
    listed = as_json({"files": [{"path": "MLmodel", "file_size": 5}]})
    answers = iter([failure, listed, ServiceAnswer(200, b"a: 1")])
    with failing_service(lambda _: next(answers)) as server:
        place = FileLocation(kind, "1", None)
        assert reader_of(server, retries=1).text_of(place, "MLmodel") == "a: 1"


def test_a_server_that_fails_at_everything_fails_at_no_experiment() -> None:
    with failing_service(lambda _: UNEXPECTED) as server:
        reader = reader_of(server)
        with pytest.raises(SourceUnavailableError):
            list(reader.experiments())
        assert not reader.refusals.count
        assert len(server.requests) == 1


# --- the doctor ----------------------------------------------------------------------------------


def outcomes(reader: RestReader) -> dict[str, tuple[str, str]]:
    return {found.what: (found.outcome, found.detail) for found in reader.check()}


@pytest.mark.parametrize(
    ("number", "config", "outcome"),
    [(0, {}, "ok"), (1, {}, "warning"), (1, {"server_id": "mine"}, "ok")],
)
def test_an_id_that_may_change_with_permissions_is_a_warning(
    number: int, config: dict[str, str], outcome: str
) -> None:
    with failing_service(mlflow(experiments={"experiments": [experiment(number)]})) as server:
        assert outcomes(reader_of(server, **config))["MLflow server id"][0] == outcome


def test_no_workspace_is_a_warning() -> None:
    with failing_service(mlflow(server_info=INFO, workspaces={})) as server:
        found = outcomes(reader_of(server))
    assert found["MLflow workspaces"] == ("warning", "0 of 0 selected: ")
    assert "MLflow credentials" not in found


def test_the_doctor_of_a_server_in_order() -> None:
    script = mlflow(
        **{"/version": ServiceAnswer(200, b"3.17.2", {"Content-Type": "text/html"})},
        experiments={"experiments": [experiment(0, creation_time=1), experiment(1)]},
        runs={"runs": [run(1)]},
    )
    with failing_service(script) as server:
        found = outcomes(reader_of(server, experiments={"deny": ["e0"]}, token="t"))
        assert {outcome for outcome, _ in found.values()} == {"ok"}
        assert found["MLflow version"][1] == "3.17.2"
        assert found["MLflow permission: read experiments"][1] == "1 of 2 selected"
        assert found["MLflow credentials"][1] == "accepted: the recipe's token"
        assert found["MLflow server id"][1] == sha("1")
        assert found["MLflow links"][1] == server.url


def test_the_doctor_names_what_is_odd() -> None:
    script = mlflow(
        **{"/version": NOT_FOUND},
        server_info=INFO,
        workspaces=NAMES,
        experiments={"experiments": [experiment(0)]},
    )
    with failing_service(script) as server:
        odd = reader_of(
            server,
            workspaces={"allow": ["a"]},
            experiments={"allow": ["x"]},
            ui_url="https://ui",
        )
        found = outcomes(odd)
        assert found["MLflow version"][0] == "warning"
        assert found["MLflow workspaces"] == ("ok", "1 of 3 selected: a")
        assert found["MLflow permission: read experiments"] == (
            "warning",
            "0 of 1 selected in workspace a",
        )
        assert found["MLflow links"] == ("ok", "https://ui")
        assert outcomes(reader_of(server, workspaces={"deny": [".*"]}))["MLflow workspaces"] == (
            "warning",
            "0 of 3 selected: ",
        )
    with failing_service(
        mlflow(**{"/version": ServiceAnswer(200, b"9.0.0")}, experiments=ServiceAnswer(401))
    ) as server:
        found = outcomes(reader_of(server))
        words = "9.0.0 is not a tested version; tested: 2.9, 2.22, 3.0, 3.10, 3.17, 3.18"
        assert found["MLflow version"] == ("warning", words)
        assert found["MLflow permission: read experiments"][0] == "failed"
        assert found["MLflow permission: read registered models"][0] == "ok"
    assert outcomes(reader_of(server))["MLflow server"][0] == "failed"


@pytest.mark.parametrize("text", [b"OK", b"healthy 3.17", b"<html>3.17</html>"])
def test_a_text_that_is_no_version_is_none(text: bytes) -> None:
    with failing_service(mlflow(**{"/version": ServiceAnswer(200, text)})) as server:
        assert outcomes(reader_of(server))["MLflow version"] == (
            "warning",
            "not reported by the server",
        )


def test_a_certificate_that_nobody_vouches_for_names_the_key_of_the_recipe(tmp_path: Path) -> None:
    with failing_service([ServiceAnswer()], certificate=make_certificate(tmp_path)) as server:
        with pytest.raises(SourceUnavailableError) as reported:
            list(reader_of(server).experiments())
        assert str(reported.value).endswith("signed the certificate)")
        key = tmp_path / "cert.pem"
        assert reader_of(server, ca_bundle=str(key)).workspaces()


TAGS = {"mlcat.tests": "passing", "mlcat.tests_at": "2026-11-28"}
RUN, VERSION = MlflowObject("run", "r1"), MlflowObject("version", "m", "2")


@pytest.mark.parametrize(
    ("target", "endpoints"),
    [
        (RUN, ["runs/get", "runs/log-batch"]),
        (VERSION, ["model-versions/get", *["model-versions/set-tag"] * 2]),
    ],
)
def test_tags_are_set_unless_the_first_of_them_is(
    target: MlflowObject, endpoints: list[str]
) -> None:
    held: list[dict[str, str]] = []
    found = {
        "runs/get": {"run": {"data": {"tags": held}}},
        "model-versions/get": {"model_version": {"tags": held}},
    }

    def answer(request: ServiceRequest) -> ServiceAnswer:
        name = urlsplit(request.path).path.rpartition("/mlflow/")[2]
        if request.method == "POST":
            body = json.loads(request.body)
            held.extend(
                body["tags"] if "tags" in body else [{k: body[k] for k in ("key", "value")}]
            )
        return as_json(found.get(name, {}))

    with failing_service(answer) as server:
        reader = reader_of(server)
        assert reader.set_tags(target, TAGS) is None
        assert {one["key"]: one["value"] for one in held} == TAGS
        assert reader.set_tags(target, TAGS) is None
        asked = [path.rpartition("/mlflow/")[2] for path in paths(server)]
    assert asked == [*endpoints, endpoints[0]]


@pytest.mark.parametrize("target", [RUN, VERSION])
@pytest.mark.parametrize("failing", ["/get", "-batch", "/set-tag"])
def test_a_refusal_of_a_tag_is_returned_with_its_reason(target: MlflowObject, failing: str) -> None:
    def answer(request: ServiceRequest) -> ServiceAnswer:
        if urlsplit(request.path).path.endswith(failing):
            return refusal("PERMISSION_DENIED", 403, "no EDIT")
        return as_json({})

    with failing_service(answer) as server:
        problem = reader_of(server).set_tags(target, TAGS)
        reached = any(path.endswith(failing) for path in paths(server))
        assert problem == ("403: no EDIT" if reached else None)
