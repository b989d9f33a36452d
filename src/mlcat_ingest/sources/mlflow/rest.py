"""Reads an MLflow tracking server over its REST API: bulk listings only, pages ahead of time."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Self

from mlcat_ingest.awaiting import Awaited, longest_awaited
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.findings import Finding
from mlcat_ingest.http import Reply
from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE
from mlcat_ingest.reach import clock
from mlcat_ingest.sources.mlflow import decode
from mlcat_ingest.sources.mlflow.checks import findings
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.file_access import Place
from mlcat_ingest.sources.mlflow.listing import (
    EXPERIMENTS_A_LISTING,
    EXPERIMENTS_PAGE,
    LOGGED_MODELS_ORDER,
    LOGGED_MODELS_PAGE,
    MODELS_PAGE,
    PAGE_BYTES,
    RUNS_A_SLICE,
    SLICE_BYTES,
    VERSIONS_PAGE,
    PageSize,
    RunsQuery,
    chunks,
    models_filter,
)
from mlcat_ingest.sources.mlflow.paging import (
    Page,
    RecentIds,
    follow,
    read_ahead,
    token_at,
    used_up,
)
from mlcat_ingest.sources.mlflow.reader import (
    ALL_MODELS,
    ALL_RUNS,
    ModelFilter,
    RunFilter,
    Thing,
    identity,
)
from mlcat_ingest.sources.mlflow.records import (
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
)
from mlcat_ingest.sources.mlflow.replies import (
    NO_SUCH_ENDPOINT,
    is_refusal,
    judged,
    page_of,
    says_none,
)
from mlcat_ingest.sources.mlflow.rest_files import text_of
from mlcat_ingest.sources.mlflow.server import API, Server

_BY_NAME: Final = {
    "run": ("runs/get", "run_id"),
    "experiment": ("experiments/get", "experiment_id"),
    "registered": ("registered-models/get", "name"),
    "version": ("model-versions/get", "name"),
}
"""Endpoint and parameter by which each kind of thing is asked for."""


class RestReader:
    """A `Reader` over MLflow's REST API, versions 2.x and 3.x, open source or compatible."""

    def __init__(
        self, config: MlflowConfig, server: Server | None = None, workspace: str | None = None
    ) -> None:
        """Prepare the connections, or share those of `server`; nothing is contacted yet."""
        self._config = config
        self._server = server or Server(config)
        self._header = workspace
        self._experiments: list[list[Experiment]] | None = None
        self._models: list[list[RegisteredModel]] | None = None
        self._prompts: set[str] = set()

    @property
    def workspace(self) -> str:
        """The workspace that the listings are of."""
        return self._header or DEFAULT_WORKSPACE

    def server_id(self) -> str:
        """Return the identity of the server; see `Reader`.

        Cost: the listing of experiments of the default workspace, unless it was read already.
        """
        if self._server.identity is None:
            created = None
            if self._config.server_id is None:
                default = self
                if self.workspace != DEFAULT_WORKSPACE:
                    default = self.in_workspace(DEFAULT_WORKSPACE)
                every = (found for page in default.experiments() for found in page)
                created = next((e.created_at_ms for e in every if e.experiment_id == "0"), None)
            self._server.identity = identity(self._config, created)
        return self._server.identity

    def workspaces(self) -> Sequence[str]:
        """Return the names of all workspaces."""
        return self._server.workspaces()

    def in_workspace(self, name: str) -> Self:
        """Return a reader of another workspace, over the same connections."""
        alone = self.workspaces() == (DEFAULT_WORKSPACE,)
        return type(self)(
            self._config, self._server, None if alone and name == DEFAULT_WORKSPACE else name
        )

    def experiments(self) -> Iterator[list[Experiment]]:
        """Yield all experiments in pages; listed once and kept."""
        if self._experiments is None:
            params = [
                ("view_type", "ALL"),
                ("max_results", str(EXPERIMENTS_PAGE)),
                ("order_by", "creation_time ASC"),
            ]
            pages = self._listed("experiments", params)
            seen = RecentIds()
            self._experiments = []
            for items in pages:
                found = decode.decoded("experiments", decode.experiment, items)
                fresh = seen.new([one.experiment_id for one in found])
                self._experiments.append([found[at] for at in fresh])
        yield from self._experiments

    def registered_models(self) -> Iterator[list[RegisteredModel]]:
        """Yield all registered models in pages, without prompts; listed once and kept."""
        if self._models is None:
            params = [("max_results", str(MODELS_PAGE))]
            seen = RecentIds()
            self._models = []
            for items in self._listed("registered-models", params, registry=True):
                found = decode.decoded("registered-models", decode.registered_model, items)
                page = [found[at] for at in seen.new([one.name for one in found])]
                self._prompts.update(one.name for one in page if decode.is_prompt(one.tags))
                self._models.append([one for one in page if not decode.is_prompt(one.tags)])
        yield from self._models

    def model_versions(self) -> Iterator[list[ModelVersion]]:
        """Yield the versions of all registered models in pages, prompts left out."""
        models = [model for page in self.registered_models() for model in page]
        if not models:
            return
        version = partial(decode.model_version, aliases=decode.Aliases(models))
        seen = RecentIds()
        # A total order that edits do not change: the server's own would lose edited versions.
        params = [("max_results", str(VERSIONS_PAGE))]
        params += [("order_by", "name ASC"), ("order_by", "version_number ASC")]
        for items in self._listed("model-versions", params, registry=True):
            found = decode.decoded("model-versions", version, items)
            fresh = [found[at] for at in seen.new([f"{v.name}/{v.version}" for v in found])]
            yield [
                one
                for one in fresh
                if one.name not in self._prompts and not decode.is_prompt(one.tags)
            ]

    def logged_models(
        self, experiment_ids: Sequence[str], *, only: ModelFilter = ALL_MODELS
    ) -> Iterator[list[LoggedModel]]:
        """Yield the logged models of some experiments in pages; none where the server has none."""
        seen = RecentIds()
        condition = models_filter(only)
        for ids in chunks(experiment_ids, EXPERIMENTS_A_LISTING):
            body = {
                "experiment_ids": list(ids),
                "max_results": LOGGED_MODELS_PAGE,
                "order_by": LOGGED_MODELS_ORDER,
                **({"filter": condition} if condition else {}),
            }

            def fetch(token: str | None, body: Mapping[str, Any] = body) -> Page[Any]:
                reply = self._post("logged-models", {**body, **_paged(token)})
                if reply.status in NO_SUCH_ENDPOINT and not is_refusal(reply):
                    return Page([], None)
                return page_of(judged(reply, "logged-models"), "models")

            for items in follow(fetch, listing="logged-models"):
                found = decode.decoded("logged-models", decode.logged_model, items)
                yield [found[at] for at in seen.new([one.model_id for one in found])]

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

    def text_of(self, place: Place, path: str) -> str | None:
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

    def _listed(
        self, listing: str, params: list[tuple[str, str]], *, registry: bool = False
    ) -> Iterator[Sequence[Any]]:
        http = self._server.registry if registry else self._server.tracking
        key = listing.replace("-", "_")

        def fetch(token: str | None) -> Page[Any]:
            more = [("page_token", token)] if token else []
            path = f"{API}/{listing}/search"
            reply = self._server.get(http, path, [*params, *more], self._header)
            return page_of(judged(reply, listing), key)

        return follow(fetch, listing=listing)

    def _post(self, listing: str, body: Mapping[str, Any]) -> Reply:
        path = f"{API}/{listing}/search"
        return self._server.post(self._server.tracking, path, body, self._header)


def _weighed(reply: Reply, *sizes: PageSize) -> Page[Any]:
    """Return the page of runs that a reply holds, and let `sizes` learn from it."""
    page = page_of(reply, "runs")
    for one in sizes:
        one.saw(len(page.items), len(reply.content))
    return page


def _paged(token: str | None) -> Mapping[str, str]:
    return {"page_token": token} if token else {}
