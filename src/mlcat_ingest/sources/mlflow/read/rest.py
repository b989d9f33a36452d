"""Reads an MLflow tracking server over its REST API: bulk listings only, pages ahead of time."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, Self
from urllib.parse import quote

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE
from mlcat_ingest.net.http import Reply
from mlcat_ingest.net.reachability import clock
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read import decode
from mlcat_ingest.sources.mlflow.read.checks import findings
from mlcat_ingest.sources.mlflow.read.files import MAX_BYTES, FileLocation
from mlcat_ingest.sources.mlflow.read.listing import (
    PAGE_BYTES,
    RUNS_A_SLICE,
    SLICE_BYTES,
    ApiReader,
    PageSize,
    RunsQuery,
    chunks,
    offset_after,
)
from mlcat_ingest.sources.mlflow.read.reader import ALL_RUNS, MlflowObject, RunFilter, identity
from mlcat_ingest.sources.mlflow.read.server import (
    API,
    NO_SUCH_ENDPOINT,
    MlflowServer,
    is_refusal,
    object_of,
    page_of,
    raise_for_status,
    reports_missing,
)
from mlcat_ingest.sources.mlflow.values.records import Run
from mlcat_ingest.sources.paging import (
    ListingPage,
    RecentIds,
    drain_slices,
    follow,
    read_ahead,
)

_BY_NAME: Final = {
    "run": ("runs/get", "run_id"),
    "experiment": ("experiments/get", "experiment_id"),
    "registered": ("registered-models/get", "name"),
    "version": ("model-versions/get", "name"),
}
"""Endpoint and parameter by which each kind of object is asked for."""

_FILE: Final = "/get-artifact"
_FILE_OF_MODEL: Final = "/ajax-api/2.0/mlflow/logged-models"
_MOST_PAGES: Final = 20


class RestReader(ApiReader):
    """A `Reader` over MLflow's REST API, versions 2.x and 3.x, open source or compatible."""

    converters = MappingProxyType(
        {
            "experiments": decode.experiment,
            "registered-models": decode.registered_model,
            "model-versions": decode.model_version,
            "logged-models": decode.logged_model,
        }
    )

    def __init__(
        self, config: MlflowConfig, server: MlflowServer | None = None, workspace: str | None = None
    ) -> None:
        """Prepare the connections, or share those of `server`; nothing is contacted yet."""
        super().__init__(config)
        self.connection = server or MlflowServer(config)
        self.lacking = self.connection.lacking
        self._header = workspace
        self.registry_api = API

    @property
    def workspace(self) -> str:
        """The workspace that the listings are of."""
        return self._header or DEFAULT_WORKSPACE

    def server_id(self) -> str:
        """Return the identity of the server.

        Cost: the listing of experiments of the default workspace, unless it was read already.
        """
        if self.connection.identity is None:
            self.connection.identity = identity(
                self._config, lambda: self._in_default().first_created_ms()
            )
        return self.connection.identity

    def _in_default(self) -> Self:
        return self if self.workspace == DEFAULT_WORKSPACE else self._in(DEFAULT_WORKSPACE)

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
        seen = RecentIds()
        decode_runs = partial(decode.decode_page, "runs", decode.run)
        for ids in chunks(experiment_ids, self.experiments_a_listing):

            def fetch(token: str | None, count: int, ids: Sequence[str] = ids) -> Reply:
                body = {**query.body(ids, count), **_token_param(token or query.first_token)}
                return raise_for_status(self._post("runs", body), "runs")

            for items in read_ahead(
                fetch,
                lambda reply: _page_of_runs(reply, pages, slices),
                lambda: pages.runs,
                listing="MLflow's listing of runs",
                ahead=self._config.connections,
                want=query.want(),
                token_after=offset_after,
            ):
                fresh = seen.new(decode.decode_page("runs", decode.run_id, items))
                if len(fresh) < len(items):
                    items[:] = [items[at] for at in fresh]
                # By `map`, since a loop over the slices would keep each one until the next.
                for found in map(decode_runs, drain_slices(items, slices.runs)):
                    yield query.accept(found)
                    if query.is_complete():
                        return

    def is_gone(self, target: MlflowObject) -> bool:
        """Return whether the server says that there is no such object, in the trash or not."""
        tracked = target.kind not in {"registered", "version"}
        http = self.connection.tracking if tracked else self.connection.registry
        if target.kind == "logged_model":
            endpoint, params = f"logged-models/{quote(target.name, safe='')}", []
        else:
            endpoint, parameter = _BY_NAME[target.kind]
            params = [(parameter, target.name)]
        if target.version:
            params.append(("version", target.version))
        address = f"{API if tracked else self.registry_api}/{endpoint}"
        return reports_missing(self.connection.get(http, address, params, self._header))

    def text_of(self, place: FileLocation, path: str) -> str | None:
        """Return what a file of a run or logged model holds."""
        return text_of(self.connection, self._header, place, path)

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing."""
        try:
            version = self.connection.version()
        except MlcatError as error:
            yield Finding("MLflow server", "failed", error.message, error.hint)
            return
        yield Finding("MLflow server", "ok", f"{self._config.public_uri} responded")
        yield clock("MLflow", self.connection.tracking.clock_skew_s)
        yield from self.connection.check_user()
        how = self.connection.sign_in.how
        yield from findings(self, self._config, version=version, how=how, read_by="server")

    def _items(self, listing: str, query: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
        fetch = self._logged_models_page if listing == "logged-models" else self._page
        return follow(partial(fetch, listing, query), listing=f"MLflow's listing of {listing}")

    def _page(self, listing: str, query: Mapping[str, Any], token: str | None) -> ListingPage[Any]:
        of_registry = listing in {"registered-models", "model-versions"}
        http = self.connection.registry if of_registry else self.connection.tracking
        api = self.registry_api if of_registry else API
        params = [
            (name, str(value))
            for name, given in {**query, **_token_param(token)}.items()
            for value in (given if isinstance(given, list) else [given])
        ]
        reply = self.connection.get(http, f"{api}/{listing}/search", params, self._header)
        return page_of(raise_for_status(reply, listing), listing.replace("-", "_"))

    def _logged_models_page(
        self, listing: str, query: Mapping[str, Any], token: str | None
    ) -> ListingPage[Any]:
        if listing in self.lacking:
            return ListingPage([], None)
        reply = self._post(listing, {**query, **_token_param(token)})
        if reply.status in NO_SUCH_ENDPOINT and not is_refusal(reply):
            self.lacking.add(listing)
            return ListingPage([], None)
        return page_of(raise_for_status(reply, listing), "models")

    def _post(self, listing: str, body: Mapping[str, Any]) -> Reply:
        path = f"{API}/{listing}/search"
        return self.connection.post(self.connection.tracking, path, body, self._header)


def _page_of_runs(reply: Reply, *sizes: PageSize) -> ListingPage[Any]:
    """Return the page of runs that a reply holds, and let `sizes` learn from it."""
    page = page_of(reply, "runs")
    for size in sizes:
        size.learn(len(page.items), len(reply.content))
    return page


def _token_param(token: str | None) -> Mapping[str, str]:
    return {"page_token": token} if token else {}


def text_of(
    server: MlflowServer, workspace: str | None, place: FileLocation, path: str
) -> str | None:
    """Return what a file holds, through the server, which has access to it.

    The folder is listed first: the server answers as badly for a file that is not there as where
    its store does not answer.
    """
    if not has_file(server, workspace, place, path):
        return None
    if place.kind == "run":
        reply = _get(server, workspace, _FILE, [("path", path), ("run_uuid", place.id)])
    else:
        address = f"{_FILE_OF_MODEL}/{place.id}/artifacts/files"
        reply = _get(server, workspace, address, [("artifact_file_path", path)])
    return raise_for_status(reply, f"the file {path}").content.decode("utf-8", "replace")


def has_file(server: MlflowServer, workspace: str | None, place: FileLocation, path: str) -> bool:
    """Return whether there is a file that is small enough to be read."""
    folder = path.rpartition("/")[0]
    for entry in _list_files(server, workspace, place, folder):
        if entry.get("path") == path:
            return not entry.get("is_dir") and int(entry.get("file_size") or 0) <= MAX_BYTES
    return False


def _list_files(
    server: MlflowServer, workspace: str | None, place: FileLocation, folder: str
) -> Iterator[Mapping[str, Any]]:
    if place.kind == "run":
        address, params = f"{API}/artifacts/list", [("run_id", place.id)]
        params += [("path", folder)] if folder else []
    else:
        address = f"{API}/logged-models/{place.id}/artifacts/directories"
        params = [("artifact_directory_path", folder)] if folder else []

    def fetch(token: str | None) -> ListingPage[Any]:
        reply = _get(server, workspace, address, [*params, *_token_param(token).items()])
        if reply.status in NO_SUCH_ENDPOINT or (reply.status == 400 and is_refusal(reply)):
            # An older server, a model that is gone, a place that the server does not serve.
            return ListingPage([], None)
        content = object_of(raise_for_status(reply, "files"))
        return ListingPage(content.get("files") or [], content.get("next_page_token"))

    for entries in islice(follow(fetch, listing="MLflow's listing of files"), _MOST_PAGES):
        yield from (entry for entry in entries if isinstance(entry, dict))


def _get(
    server: MlflowServer, workspace: str | None, address: str, params: list[tuple[str, str]]
) -> Reply:
    return server.get(server.tracking, address, params, workspace)
