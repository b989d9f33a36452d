"""Reads an MLflow tracking server over its REST API: bulk listings only, pages ahead of time."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Self

from mlcat_ingest.core.awaiting import Awaited, longest_awaited
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE
from mlcat_ingest.net.http import Reply
from mlcat_ingest.net.reachability import clock
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read import decode
from mlcat_ingest.sources.mlflow.read.api_reader import ApiReader
from mlcat_ingest.sources.mlflow.read.checks import findings
from mlcat_ingest.sources.mlflow.read.file_access import FileLocation
from mlcat_ingest.sources.mlflow.read.listing import (
    EXPERIMENTS_A_LISTING,
    PAGE_BYTES,
    RUNS_A_SLICE,
    SLICE_BYTES,
    PageSize,
    RunsQuery,
    chunks,
)
from mlcat_ingest.sources.mlflow.read.paging import (
    ListingPage,
    RecentIds,
    follow,
    read_ahead,
    token_at,
    used_up,
)
from mlcat_ingest.sources.mlflow.read.reader import ALL_RUNS, RunFilter, Thing, identity
from mlcat_ingest.sources.mlflow.read.replies import (
    NO_SUCH_ENDPOINT,
    is_refusal,
    judged,
    page_of,
    says_none,
)
from mlcat_ingest.sources.mlflow.read.rest_files import text_of
from mlcat_ingest.sources.mlflow.read.server import API, MlflowServer
from mlcat_ingest.sources.mlflow.values.records import Run

_BY_NAME: Final = {
    "run": ("runs/get", "run_id"),
    "experiment": ("experiments/get", "experiment_id"),
    "registered": ("registered-models/get", "name"),
    "version": ("model-versions/get", "name"),
}
"""Endpoint and parameter by which each kind of thing is asked for."""


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
        self._server = server or MlflowServer(config)
        self._header = workspace

    @property
    def workspace(self) -> str:
        """The workspace that the listings are of."""
        return self._header or DEFAULT_WORKSPACE

    def server_id(self) -> str:
        """Return the identity of the server; see `Reader`.

        Cost: the listing of experiments of the default workspace, unless it was read already.
        """
        if self._server.identity is None:
            self._server.identity = identity(
                self._config, lambda: self._in_default().first_created_ms()
            )
        return self._server.identity

    def _in_default(self) -> Self:
        here = self.workspace == DEFAULT_WORKSPACE
        return self if here else self.in_workspace(DEFAULT_WORKSPACE)

    def workspaces(self) -> Sequence[str]:
        """Return the names of all workspaces."""
        return self._server.workspaces()

    def in_workspace(self, name: str) -> Self:
        """Return a reader of another workspace, over the same connections."""
        alone = self.workspaces() == (DEFAULT_WORKSPACE,)
        return type(self)(
            self._config, self._server, None if alone and name == DEFAULT_WORKSPACE else name
        )

    def runs(
        self, experiment_ids: Sequence[str], *, only: RunFilter = ALL_RUNS
    ) -> Iterator[list[Run]]:
        """Yield the runs of some experiments in slices of a page, in the order of their start."""
        query = RunsQuery(only, self._config.page_size)
        pages = PageSize(query.page_size, PAGE_BYTES)
        slices = PageSize(RUNS_A_SLICE, SLICE_BYTES)
        seen = RecentIds()
        decode_runs = partial(decode.decoded, "runs", decode.run)
        for ids in chunks(experiment_ids, EXPERIMENTS_A_LISTING):

            def fetch(token: str | None, count: int, ids: Sequence[str] = ids) -> Reply:
                body = {**query.body(ids, count), **_paged(token)}
                return judged(self._post("runs", body), "runs")

            for items in read_ahead(
                fetch,
                lambda reply: _weighed(reply, pages, slices),
                lambda: pages.runs,
                listing="runs",
                ahead=self._config.connections,
                want=query.want(),
            ):
                fresh = seen.new(decode.decoded("runs", decode.run_id, items))
                if len(fresh) < len(items):
                    items[:] = [items[at] for at in fresh]
                # By `map`, since a loop over the slices would keep each one until the next.
                for found in map(decode_runs, used_up(items, slices.runs)):
                    yield query.taken(found)
                    if query.satisfied():
                        return

    def has_run(self, experiment_id: str, at: int) -> bool:
        """Return whether an experiment has more than `at` runs; see `Reader`."""
        body = {**RunsQuery(ALL_RUNS, 1).body([experiment_id], 1), **_paged(token_at(at))}
        return bool(page_of(judged(self._post("runs", body), "runs"), "runs").items)

    def is_gone(self, thing: Thing) -> bool:
        """Return whether the server says that there is no such thing; see `Reader`."""
        endpoint, parameter = _BY_NAME[thing.kind]
        tracked = thing.kind in {"run", "experiment"}
        http = self._server.tracking if tracked else self._server.registry
        params = [(parameter, thing.name)]
        if thing.version:
            params.append(("version", thing.version))
        return says_none(self._server.get(http, f"{API}/{endpoint}", params, self._header))

    def text_of(self, place: FileLocation, path: str) -> str | None:
        """Return what a file of a run or logged model holds; see `ReadsFiles`."""
        return text_of(self._server, self._header, place, path)

    def clock_ms(self) -> int:
        """Return the time that the server's last reply told."""
        return self._server.clock_ms()

    def awaited(self) -> Awaited | None:
        """Return the request that waits longest for its answer; see `Awaits`."""
        return longest_awaited(self._server.tracking, self._server.registry)

    def requests_made(self) -> int:
        """Return how many requests were sent so far, in all workspaces."""
        return self._server.requests_made()

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing."""
        if not (yield from self._server.reached()):
            return
        try:
            version = self._server.version()
        except MlcatError as error:
            yield Finding("MLflow server", "failed", error.message, error.hint)
            return
        yield Finding("MLflow server", "ok", f"{self._config.public_uri} answers")
        yield clock("MLflow", self._server.tracking.clock_skew_s)
        yield from self._server.signed_in_as()
        how = self._server.sign_in.how
        yield from findings(self, self._config, version=version, how=how, read_by="server")

    def close(self) -> None:
        """Release connections; safe to call twice."""
        self._server.close()

    def _items(self, listing: str, query: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
        fetch = self._logged_models_page if listing == "logged-models" else self._page
        return follow(partial(fetch, listing, query), listing=listing)

    def _page(self, listing: str, query: Mapping[str, Any], token: str | None) -> ListingPage[Any]:
        of_registry = listing in {"registered-models", "model-versions"}
        http = self._server.registry if of_registry else self._server.tracking
        params = [
            (name, str(value))
            for name, given in {**query, **_paged(token)}.items()
            for value in (given if isinstance(given, list) else [given])
        ]
        reply = self._server.get(http, f"{API}/{listing}/search", params, self._header)
        return page_of(judged(reply, listing), listing.replace("-", "_"))

    def _logged_models_page(
        self, listing: str, query: Mapping[str, Any], token: str | None
    ) -> ListingPage[Any]:
        reply = self._post(listing, {**query, **_paged(token)})
        if reply.status in NO_SUCH_ENDPOINT and not is_refusal(reply):
            return ListingPage([], None)
        return page_of(judged(reply, listing), "models")

    def _post(self, listing: str, body: Mapping[str, Any]) -> Reply:
        path = f"{API}/{listing}/search"
        return self._server.post(self._server.tracking, path, body, self._header)


def _weighed(reply: Reply, *sizes: PageSize) -> ListingPage[Any]:
    """Return the page of runs that a reply holds, and let `sizes` learn from it."""
    page = page_of(reply, "runs")
    for one in sizes:
        one.saw(len(page.items), len(reply.content))
    return page


def _paged(token: str | None) -> Mapping[str, str]:
    return {"page_token": token} if token else {}
