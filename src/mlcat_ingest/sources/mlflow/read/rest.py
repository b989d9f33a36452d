"""Reads an MLflow server over REST: its connections and error replies, and bulk listings only."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import islice
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit, urlunsplit

from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.core.findings import Finding, UnansweredRequest, longest_pending_request
from mlcat_ingest.core.paging import ListingPage, RecentIds, chunks, follow
from mlcat_ingest.errors import (
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    SourceUnavailableError,
)
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE
from mlcat_ingest.net.http import Http, IsPassing, Params, Reply, clock, is_read_failure
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read import decode
from mlcat_ingest.sources.mlflow.read.assets import asset, path_of
from mlcat_ingest.sources.mlflow.read.checks import findings, links_finding, numbers_of
from mlcat_ingest.sources.mlflow.read.fields import moment
from mlcat_ingest.sources.mlflow.read.listing import (
    LISTINGS,
    MODELS_PAGE,
    OF_REGISTRY,
    PAGE_BYTES,
    RUNS_A_SLICE,
    RUNS_LISTING,
    SLICE_BYTES,
    ApiReader,
    PageSize,
    RunsQuery,
    label_of,
    offset_after,
    token_param,
)
from mlcat_ingest.sources.mlflow.read.reader import (
    ALL_RUNS,
    MAX_BYTES,
    FileLocation,
    MlflowConnection,
    MlflowObject,
    RunFilter,
    identity,
)
from mlcat_ingest.sources.mlflow.read.signin import PEER, RequestAuth, sign_in
from mlcat_ingest.sources.mlflow.values.assets import MCP_SERVER, PROMPT, SKILL, Asset
from mlcat_ingest.sources.mlflow.values.records import Run
from mlcat_ingest.sources.mlflow.values.uris import (
    has_databricks_scheme,
    normalise_uri,
    registry_of,
)
from mlcat_ingest.sources.paging import drain_slices, read_ahead

log = logging.getLogger(__name__)

NO_SUCH_ENDPOINT: Final = frozenset({404, 405, 501})

API: Final = "/api/2.0/mlflow"
API_3: Final = "/api/3.0/mlflow"
_WORKSPACE_HEADER: Final = "X-MLFLOW-WORKSPACE"

_BY_NAME: Final = {
    "run": ("runs/get", "run_id"),
    "experiment": ("experiments/get", "experiment_id"),
    "registered": ("registered-models/get", "name"),
    "version": ("model-versions/get", "name"),
}
"""Endpoint and parameter by which each kind of object is asked for."""

_ASSETS: Final = {
    MCP_SERVER: ("mcp-servers", "mcp_server_versions"),
    SKILL: ("skills", "skill_versions"),
}
"""The listing of each kind of assets that has an API of its own, and where its versions are."""

_FILE: Final = "/get-artifact"

_FILE_OF_MODEL: Final = "/ajax-api/2.0/mlflow/logged-models"

_MOST_PAGES: Final = 20

_MOST_UNLISTED: Final = 20
"""Objects that a server may fail to list, before it counts as one that does not work."""


def page_of(reply: Reply, key: str) -> ListingPage[Any]:
    """Return one page of a listing; `key` is where its items are.

    Raises:
        ProtocolMismatchError: the reply holds no listing.
    """
    value = object_of(reply)
    items = value.get(key, [])
    if not isinstance(items, list) or (not items and value.keys() - {key, "next_page_token"}):
        raise _no_listing(reply)
    return ListingPage(items, value.get("next_page_token"))


def _no_listing(reply: Reply) -> ProtocolMismatchError:
    return ProtocolMismatchError(
        f"{reply.peer} at {reply.url} returned JSON that is not an MLflow listing",
        hint="check that the address is that of an MLflow server",
    )


def object_of(reply: Reply) -> dict[str, Any]:
    """Return the JSON object that a reply holds.

    Raises:
        ProtocolMismatchError: it holds something else.
    """
    value = reply.json()
    if not isinstance(value, dict):
        raise ProtocolMismatchError(
            f"{reply.peer} at {reply.url} returned JSON that is not an object",
            hint="check that the address is that of an MLflow server",
        )
    return value


def raise_for_status(reply: Reply, listing: str) -> Reply:
    """Return a reply that holds a listing.

    Raises:
        NotAuthorizedError: 403.
        ProtocolMismatchError: there is no such endpoint, or the server refuses what is asked.
        SourceUnavailableError: the server failed.
    """
    if reply.ok:
        return reply
    reason = _message(reply)
    if reply.status == 403:
        raise NotAuthorizedError(
            f"{reply.peer} at {reply.url} denied the listing of {listing}{reason}",
            hint=_cure_of_denial(reply),
        )
    if reply.status >= 500 and reply.status not in NO_SUCH_ENDPOINT:
        raise SourceUnavailableError(
            f"{reply.peer} at {reply.url} failed with {reply.status}{reason}",
            hint="see the server's log",
        )
    if reply.status in NO_SUCH_ENDPOINT and not _is_refusal(reply):
        raise ProtocolMismatchError(
            f"no MLflow server at {reply.url}: {reply.status}",
            hint="check `tracking_uri`, including the path prefix of MLflow",
        )
    raise ProtocolMismatchError(
        f"{reply.peer} at {reply.url} refused the listing of {listing} with {reply.status}{reason}"
    )


def _is_own_failure(reply: Reply) -> bool:
    """Return whether MLflow failed at what it read: another attempt fails, too.

    It answers 503 where its database fails, which is worth one. What its API 3.0 does not expect,
    it answers by a text, which elsewhere any failure of the server has.
    """
    if reply.status != 500:
        return False
    is_unexpected = API_3 in reply.url and reply.content == b"Internal Server Error"
    return is_unexpected or _object_in(reply).get("error_code") == "INTERNAL_ERROR"


def _is_passing(reply: Reply) -> bool:
    return is_read_failure(reply) and not _is_own_failure(reply)


def reports_missing(reply: Reply) -> bool:
    """Return whether MLflow reports that an object does not exist, not that it is denied or down.

    False if it fails at the object itself.

    Raises:
        SourceUnavailableError: the server failed.
    """
    if _is_own_failure(reply):
        return False
    if reply.status >= 500 and reply.status not in NO_SUCH_ENDPOINT:
        raise_for_status(reply, "one object by its name")
    return not reply.ok and _object_in(reply).get("error_code") == "RESOURCE_DOES_NOT_EXIST"


def _is_refusal(reply: Reply) -> bool:
    """Return whether MLflow itself refused, rather than there being no such endpoint."""
    return _object_in(reply).get("error_code") not in {None, "ENDPOINT_NOT_FOUND"}


def _message(reply: Reply) -> str:
    text = _object_in(reply).get("message")
    return (
        f": {' '.join(text.split())[:300]}" if isinstance(text, str) and text else reply.body_line
    )


def _cure_of_denial(reply: Reply) -> str:
    """Return what lets a request through that was answered with 403.

    Source: `security_utils.INVALID_HOST_MSG` of MLflow since 3.5, and `make_forbidden_response` of
    its basic-auth.
    """
    if b"Invalid Host header" in reply.content:
        name = urlsplit(reply.url).netloc
        return f"allow this name with `mlflow server --allowed-hosts {name}`"
    if _is_refusal(reply) or reply.content.strip() == b"Permission denied":
        return "grant the user read access"
    return "a proxy or firewall in front of MLflow refuses the request: allow it there, or sign in"


def _object_in(reply: Reply) -> Mapping[str, Any]:
    """Return the JSON object that a reply holds, an empty one for anything else."""
    try:
        value = reply.json()
    except ProtocolMismatchError:
        return {}
    return value if isinstance(value, dict) else {}


class _NotListedError(Exception):
    """There is no such listing, or none in this workspace."""


def _ids_of_asset(item: object) -> Sequence[object]:
    """Return what names an MCP server or a skill, None where it has no name."""
    return [path_of(item) if isinstance(item, Mapping) and item.get("name") else None]


class MlflowServer(MlflowConnection):
    """The connections to one tracking server and its registry, shared by all workspaces."""

    def __init__(self, config: MlflowConfig) -> None:
        """Prepare the connections of `config`; the first request opens them.

        Raises:
            RecipeError, UnknownPluginError, MissingExtraError: as `sign_in`.
        """
        self.config = config
        self.sign_in = sign_in(config)
        self.pages = _http(self.sign_in)
        self._tracking: Http | None = None
        registry = registry_of(config.tracking_uri, config.registry_uri)
        same = _server_of(registry) == _server_of(config.tracking_uri)
        self._registry = None if same else _http(sign_in(config, uri=registry))
        self._connections = [one for one in (self.pages, self._registry) if one is not None]
        self.lacking: set[str] = set()
        """Listings that the server lacks: it is asked for each only once."""
        self._workspaces: tuple[str, ...] | None = None
        self.identity: str | None = None
        self._server_date: str | None = None

    @property
    def tracking(self) -> Http:
        """The connection to the API: below the address of the recipe, else at its host.

        Cost: for an address with a path one request, two where the API is not below it.
        """
        if self._tracking is None:
            self._tracking = self._api_above_prefix() or self.pages
        return self._tracking

    @property
    def registry(self) -> Http:
        """The connection to the API of the model registry."""
        return self._registry or self.tracking

    def _api_above_prefix(self) -> Http | None:
        """Return the connection to an API that is not below the path of the address.

        Before MLflow 3 a server with `--static-prefix` has its pages there, and its API at the
        host.
        """
        parts = urlsplit(self.sign_in.url)
        below = self._probe(self.pages) if parts.path.strip("/") else None
        if below is None or below.status not in NO_SUCH_ENDPOINT or _is_refusal(below):
            return None
        host = replace(self.sign_in, url=urlunsplit(parts._replace(path="")))
        http = _http(host)
        above = self._probe(http)
        if above is None or not (_is_refusal(above) or "experiments" in _object_in(above)):
            http.close()
            return None
        log.warning(
            "the API of MLflow is at %s, and not below %s", host.url, self.config.public_uri
        )
        self._connections.append(http)
        return http

    def _probe(self, http: Http) -> Reply | None:
        try:
            return http.request("GET", f"{API}/experiments/search", params=[("max_results", "1")])
        except MlcatError:
            return None  # whoever needs the API asks again

    def request(
        self,
        http: Http,
        path: str,
        workspace: str | None = None,
        *,
        params: Params | None = None,
        body: Mapping[str, Any] | None = None,
        is_passing: IsPassing | None = None,
        what: str = "",
    ) -> Reply:
        """Return the reply to a GET, or a POST of JSON, in a workspace, whatever its status.

        See `Http.request`.
        """
        method, content = ("GET", None) if body is None else ("POST", dumps(body))
        headers = {_WORKSPACE_HEADER: workspace} if workspace is not None else None
        reply = http.request(
            *(method, path),
            params=params,
            body=content,
            headers=headers,
            is_passing=is_passing,
            what=what,
        )
        self._server_date = reply.headers.get("Date") or self._server_date
        return reply

    def clock_ms(self) -> int:
        """Return the server's time by its last reply; this machine's where it tells none."""
        try:
            date = parsedate_to_datetime(self._server_date or "")
        except ValueError:
            return now_ms()
        return int(date.timestamp() * 1000)

    def look_into(self, workspace: str) -> Reply:
        """Return the reply to a listing in a workspace: it tells if that is there, and is open."""
        params = [("max_results", "1")]
        return self.request(self.tracking, f"{API}/experiments/search", workspace, params=params)

    def workspaces(self) -> tuple[str, ...]:
        """Return the names of the server's workspaces, `default` first; asked for once.

        Those that the recipe names are among them if they can be read, listed or not.

        Cost: one request, two where the server has workspaces, and one for each that is named.
        """
        if self._workspaces is None:
            info = self.request(self.tracking, f"{API_3}/server-info")
            enabled = info.ok and bool(object_of(info).get("workspaces_enabled"))
            self._workspaces = self._list_workspaces() if enabled else (DEFAULT_WORKSPACE,)
        return self._workspaces

    def _list_workspaces(self) -> tuple[str, ...]:
        reply = self.request(self.tracking, f"{API_3}/workspaces")
        items = page_of(raise_for_status(reply, "workspaces"), "workspaces").items
        named = (item.get("name") for item in items if isinstance(item, dict))
        names = [name for name in named if isinstance(name, str)]
        if len(names) < len(items):
            raise _no_listing(reply)
        unlisted = (name for name in self.config.named_workspaces if name not in names)
        names += [name for name in unlisted if self.look_into(name).ok]
        return tuple(sorted(names, key=lambda name: (name != DEFAULT_WORKSPACE, name)))

    def version(self) -> str | None:
        """Return the server's version, None where it does not tell."""
        reply = self.request(self.tracking, "/version")
        text = reply.content.decode("utf-8", "replace").strip()
        # A proxy may answer any path.
        return text if reply.ok and numbers_of(text) and len(text) <= 40 else None

    def check_user(self) -> Iterator[Finding]:
        """Yield who MLflow's basic-auth takes the user for; nothing where it is not in use.

        Cost: one request, none without a user name.
        """
        user = self.sign_in.user
        if user is None:
            return
        what = "MLflow user"
        try:
            params = [("username", user)]
            reply = self.request(self.tracking, f"{API}/users/get", params=params)
        except MlcatError as error:
            yield Finding(what, "failed", error.message, error.hint)
            return
        try:
            known = object_of(reply).get("user") if reply.ok else None
        except ProtocolMismatchError:
            known = None  # signed in elsewhere: a proxy in front of a server without users
        if not isinstance(known, dict):
            return
        if known.get("is_admin") is True:
            yield Finding(
                what, "ok", f"{user} is an administrator, with permission to read everything"
            )
            return
        yield Finding(
            what,
            "warning",
            f"{user} is not an administrator: MLflow silently omits objects without READ "
            "permission",
            "grant READ on all objects to ingest, or set `default_permission` to READ",
        )

    def page_status(self) -> int | None:
        """Return the status of the page that links lead to, None where it does not answer.

        Cost: one request, without credentials.
        """
        with closing(self.without_credentials(self.config.ui_url or self.pages.base_url)) as http:
            try:
                return http.request("GET", "/").status
            except MlcatError as error:
                status = error.context.get("status")
                return status if isinstance(status, int) else None

    def without_credentials(self, url: str) -> Http:
        """Return a connection to a signed address, or to pages: some refuse credentials."""
        return Http(
            url,
            peer="the file store",
            unavailable=SourceUnavailableError,
            options=replace(self.sign_in.options, auth=None, headers={}),
        )

    def pending_request(self) -> UnansweredRequest | None:
        """Return the request that waits longest for its answer."""
        return longest_pending_request(*self._connections)

    def end_waits(self) -> None:
        """End every pause between attempts."""
        for http in self._connections:
            http.end_waits()

    def requests_made(self) -> int:
        """Return the requests sent to the tracking server and the registry."""
        return sum(http.requests_made() for http in self._connections)

    def close(self) -> None:
        """Close all connections; safe to call twice."""
        for http in self._connections:
            http.close()


def _server_of(uri: str) -> str:
    """Return what two URIs share if they lead to one server."""
    return "databricks" if has_databricks_scheme(uri) else normalise_uri(uri)


def _http(signed: RequestAuth) -> Http:
    return Http(
        signed.url,
        peer=PEER,
        unavailable=SourceUnavailableError,
        options=signed.options,
        # MLflow fails while its own database is locked or restarts; its own client retries it too.
        reads=True,
    )


def _tag_requests(
    target: MlflowObject, tags: Sequence[Mapping[str, str]]
) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the requests that set tags of a run or a version: endpoint and body."""
    if target.kind == "run":
        yield "runs/log-batch", {"run_id": target.name, "tags": tags}
        return
    # The first tag last: where it is set, the others are.
    for tag in reversed(tags):
        named = {"name": target.name, "version": target.version}
        yield "model-versions/set-tag", {**named, **tag}


class RestReader(ApiReader):
    """A `Reader` over MLflow's REST API, versions 2.x and 3.x, open source or compatible."""

    def __init__(
        self, config: MlflowConfig, server: MlflowServer | None = None, workspace: str | None = None
    ) -> None:
        """Prepare the connections, or share those of `server`; nothing is contacted yet."""
        super().__init__(config)
        self.connection = server or MlflowServer(config)
        self.lacking = self.connection.lacking
        self.workspace = workspace or DEFAULT_WORKSPACE
        self._header = workspace
        self._page_numbers: dict[str, int] = {}
        self.registry_api = API

    def server_id(self) -> str:
        """Return the identity of the server.

        Cost: the listing of experiments of the default workspace, unless it was read already.
        """
        if self.connection.identity is None:
            is_default = self.workspace == DEFAULT_WORKSPACE
            default = self if is_default else self._in(DEFAULT_WORKSPACE)
            self.connection.identity = identity(self._config, default.first_created_ms)
        return self.connection.identity

    def _in(self, workspace: str) -> Self:
        return type(self)(self._config, self.connection, workspace)

    def workspaces(self) -> Sequence[Self]:
        """Return a reader of each workspace; this one for its own, which may be listed already."""
        names = self.connection.workspaces()
        return [self if name == self.workspace else self._in(name) for name in names]

    def runs(
        self, experiment_ids: Sequence[str], *, only: RunFilter = ALL_RUNS
    ) -> Iterator[list[Run]]:
        """Yield the runs of some experiments in slices of a page, in the order of their start."""
        query = RunsQuery(only, self._config.page_size)
        pages = PageSize(query.page_size, PAGE_BYTES)
        slices = PageSize(RUNS_A_SLICE, SLICE_BYTES)
        seen = RecentIds(RUNS_LISTING)
        decode_runs = partial(self._usable, "runs")
        for ids in chunks(experiment_ids, self.experiments_a_listing):

            def fetch(token: str | None, count: int, ids: Sequence[str] = ids) -> Reply:
                reply = self._post("runs", query.body(ids, count), token)
                return raise_for_status(reply, "runs")

            def parse(reply: Reply) -> ListingPage[Any]:
                page = page_of(reply, "runs")
                pages.learn(len(page.items), len(reply.content))
                slices.learn(len(page.items), len(reply.content))
                return page

            for items in read_ahead(
                fetch,
                parse,
                lambda: pages.runs,
                listing=RUNS_LISTING,
                ahead=self._config.connections,
                want=query.left if query.is_exact else None,
                token_after=offset_after,
            ):
                fresh = seen.new(decode.run_ids(items))
                if len(fresh) < len(items):
                    items[:] = [items[at] for at in fresh]
                # By `map`, since a loop over the slices would keep each one until the next.
                for page in map(decode_runs, drain_slices(items, slices.runs)):
                    yield query.accept(page)
                    if query.left == 0:
                        return

    def assets(self, kind: str) -> Sequence[Asset] | None:
        """Return all assets of a kind; None where the server, or the workspace, has no such API."""
        if kind == PROMPT:
            return super().assets(kind)
        listing, versions = _ASSETS[kind]
        if listing in self.lacking:
            return None

        def make(item: Mapping[str, Any]) -> Asset:
            path = f"{listing}/{quote(path_of(item), safe='/@')}/versions"
            return asset(kind, item, self._all_of(path, partial(self._versions, path, versions)))

        try:
            items = self._all_of(listing, partial(self._assets_page, kind))
        except _NotListedError:
            return None
        return self.refusals.usable(kind, make, items, _ids_of_asset)

    def _all_of(self, listing: str, fetch: Callable[[str | None], ListingPage[Any]]) -> list[Any]:
        return [item for page in follow(fetch, listing=label_of(listing)) for item in page]

    def _assets_page(self, kind: str, token: str | None) -> ListingPage[Any]:
        listing, _ = _ASSETS[kind]

        def ask(token: str | None, count: int) -> Reply:
            reply = self._get_3(listing, token, count)
            if token is None and reply.status in NO_SUCH_ENDPOINT:
                if not _is_refusal(reply):  # such as one of a workspace that is gone
                    self.lacking.add(listing)
                raise _NotListedError
            return reply

        return self._whole_page(kind, listing, ask, token, MODELS_PAGE)

    def _versions(self, path: str, key: str, token: str | None) -> ListingPage[Any]:
        """Return a page of the versions of one asset, none if it was deleted since it was listed.

        Raises:
            ValueError: they cannot be read, and others may.
        """
        reply = self._get_3(path, token, MODELS_PAGE)
        if reply.status < 500 and reports_missing(reply):
            return ListingPage([], None)
        alone = _is_own_failure(reply) or reply.status < 500
        if not reply.ok and alone and self.refusals.count < _MOST_UNLISTED:
            raise ValueError(f"its versions cannot be read: {reply.status}{_message(reply)}")
        return page_of(raise_for_status(reply, path), key)

    def _get_3(self, path: str, token: str | None, count: int) -> Reply:
        params = [("max_results", str(count)), *token_param(token).items()]
        return self._request(f"{API_3}/{path}", params=params, is_passing=_is_passing)

    def is_gone(self, target: MlflowObject) -> bool:
        """Return whether the server reports that the object does not exist, also not in trash."""
        return reports_missing(self._get_object(target))

    def _get_object(self, target: MlflowObject) -> Reply:
        if target.kind == "workspace":
            return self.connection.look_into(target.name)
        http, api = self._api_of(target.kind)
        if target.kind in _ASSETS:
            address = f"{API_3}/{_ASSETS[target.kind][0]}/{quote(target.name, safe='/@')}"
            return self._request(address, is_passing=_is_passing)
        if target.kind == "logged_model":
            endpoint, params = f"logged-models/{quote(target.name, safe='')}", []
        else:
            endpoint, parameter = _BY_NAME[target.kind]
            params = [(parameter, target.name)]
        if target.version:
            params.append(("version", target.version))
        address = f"{api}/{endpoint}"
        return self._request(address, http, params=params, is_passing=_is_passing)

    def _api_of(self, kind: str) -> tuple[Http, str]:
        if kind in OF_REGISTRY:
            return self.connection.registry, self.registry_api
        return self.connection.tracking, API

    def set_tags(self, target: MlflowObject, tags: Mapping[str, str]) -> str | None:
        """Set tags of a run or a version, unless it has the first of them; return why they are not.

        Raises:
            SourceUnavailableError: the server does not answer.

        Cost: a read, and a write; one a tag for a version.
        """
        reply = self._get_object(target)
        found = object_of(reply) if reply.ok else {}
        held = found.get("model_version") or (found.get("run") or {}).get("data") or {}
        wanted = [{"key": key, "value": value} for key, value in tags.items()]
        if reply.ok and wanted[0] not in held.get("tags", ()):
            http, api = self._api_of(target.kind)
            for endpoint, body in _tag_requests(target, wanted):
                reply = self._request(f"{api}/{endpoint}", http, body=body)
                if not reply.ok:
                    break
        return None if reply.ok else f"{reply.status}{_message(reply)}"

    def text_of(self, place: FileLocation, path: str) -> str | None:
        """Return the content of a file of a run or logged model, which the server has access to.

        The folder is listed first: the server answers alike for a file that does not exist and for
        a store that does not answer.
        """
        if not self._has_file(place, path):
            return None
        if place.kind == "run":
            address, params = _FILE, [("path", path), ("run_uuid", place.id)]
        else:
            address = f"{_FILE_OF_MODEL}/{place.id}/artifacts/files"
            params = [("artifact_file_path", path)]
        reply = self._request(address, self.connection.pages, params=params)
        raise_for_status(reply, f"the file {path}")
        return reply.content.decode("utf-8", "replace")

    def _has_file(self, place: FileLocation, path: str) -> bool:
        """Return whether there is a file that is small enough to be read."""
        for entry in self._list_files(place, path.rpartition("/")[0]):
            if entry.get("path") == path:
                size = moment(entry.get("file_size")) or 0
                return not entry.get("is_dir") and type(size) is int and size <= MAX_BYTES
        return False

    def _list_files(self, place: FileLocation, folder: str) -> Iterator[Mapping[str, Any]]:
        if place.kind == "run":
            address, params = f"{API}/artifacts/list", [("run_id", place.id)]
            params += [("path", folder)] if folder else []
        else:
            address = f"{API}/logged-models/{place.id}/artifacts/directories"
            params = [("artifact_directory_path", folder)] if folder else []

        def fetch(token: str | None) -> ListingPage[Any]:
            reply = self._request(address, params=[*params, *token_param(token).items()])
            if reply.status in NO_SUCH_ENDPOINT or (reply.status == 400 and _is_refusal(reply)):
                # An older server, a model that is gone, a place that the server does not serve.
                return ListingPage([], None)
            content = object_of(raise_for_status(reply, "files"))
            return ListingPage(content.get("files") or [], content.get("next_page_token"))

        for entries in islice(follow(fetch, listing=label_of("files")), _MOST_PAGES):
            yield from (entry for entry in entries if isinstance(entry, dict))

    def _request(self, path: str, http: Http | None = None, **how: Any) -> Reply:
        return self.connection.request(http or self.connection.tracking, path, self._header, **how)

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing."""
        try:
            version = self.connection.version()
        except MlcatError as error:
            yield Finding("MLflow server", "failed", error.message, error.hint)
            return
        address, api = self._config.public_uri, self.connection.tracking.base_url
        elsewhere = "" if api == self.connection.pages.base_url else f"; its API is at {api}"
        yield Finding("MLflow server", "ok", f"{address} responded{elsewhere}")
        yield clock("MLflow", self.connection.tracking.clock_skew_s)
        yield from self.connection.check_user()
        how = self.connection.sign_in.how
        yield from findings(self, self._config, version=version, how=how, read_by="server")
        yield links_finding(self._config, self.connection.page_status())

    def _page(self, listing: str, query: Mapping[str, Any], token: str | None) -> ListingPage[Any]:
        if listing in self.lacking:
            return ListingPage([], None)
        if listing == "logged-models":
            reply = self._post(listing, query, token)
            if reply.status in NO_SUCH_ENDPOINT and not _is_refusal(reply):
                self.lacking.add(listing)
                return ListingPage([], None)
            return page_of(raise_for_status(reply, listing), "models")
        http, api = self._api_of(LISTINGS[listing][0])

        def ask(token: str | None, count: int) -> Reply:
            every = {**query, "max_results": count, **token_param(token)}
            params = [
                (name, str(value))
                for name, given in every.items()
                for value in (given if isinstance(given, list) else [given])
            ]
            what, path = self._page_name(listing, token), f"{api}/{listing}/search"
            return self._request(path, http, params=params, is_passing=_is_passing, what=what)

        return self._whole_page(LISTINGS[listing][0], listing, ask, token, query["max_results"])

    def _whole_page(
        self,
        kind: str,
        listing: str,
        ask: Callable[[str | None, int], Reply],
        token: str | None,
        count: int,
    ) -> ListingPage[Any]:
        """Return a page without the objects that MLflow fails at, which are found by halving it."""
        reply = ask(token, count)
        is_bounded = _is_own_failure(reply) and self.refusals.count < _MOST_UNLISTED
        after = offset_after(token, 1) if is_bounded else None
        if after is None:
            return page_of(raise_for_status(reply, listing), listing.replace("-", "_"))
        if count == 1:
            failure = f"MLflow failed to list it{_message(reply)}; see the server's log"
            self.refusals.refuse(kind, [None], failure)
            return ListingPage([], after)
        half = self._whole_page(kind, listing, ask, token, count // 2)
        if not half.token:
            return half
        rest = self._whole_page(kind, listing, ask, half.token, count - count // 2)
        return ListingPage([*half.items, *rest.items], rest.token)

    def _post(self, listing: str, body: Mapping[str, Any], token: str | None) -> Reply:
        path, what = f"{API}/{listing}/search", self._page_name(listing, token)
        return self._request(path, body={**body, **token_param(token)}, what=what)

    def _page_name(self, listing: str, token: str | None) -> str:
        """Return what names the page behind `token` to who waits for it."""
        number = self._page_numbers.get(listing, 0) + 1 if token else 1
        self._page_numbers[listing] = number
        return f"page {number} of {listing.replace('-', ' ')}"
