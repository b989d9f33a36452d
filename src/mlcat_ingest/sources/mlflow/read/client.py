"""Reads what only MlflowClient can open: folders, schemes of plug-ins. Needs the extra `mlflow`.

The records equal those of the REST reader over the same store. Opening a store changes nothing:
MLflow would create a database or a folder that is not there, and migrate an older database.
"""

import logging
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Self, TypeVar

from mlcat_ingest.core.extras import require_extra
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.pending import RequestSide
from mlcat_ingest.core.redaction import redact_urls
from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read import entities
from mlcat_ingest.sources.mlflow.read.checks import findings
from mlcat_ingest.sources.mlflow.read.client_stores import check_store, default_store
from mlcat_ingest.sources.mlflow.read.files import FileLocation, local_text
from mlcat_ingest.sources.mlflow.read.listing import (
    ENTRIES_A_PAGE,
    ApiReader,
    PageSize,
    RunsQuery,
    chunks,
    entries_of,
)
from mlcat_ingest.sources.mlflow.read.reader import ALL_RUNS, MlflowObject, RunFilter, identity
from mlcat_ingest.sources.mlflow.values.records import Run
from mlcat_ingest.sources.mlflow.values.releases import support_warning
from mlcat_ingest.sources.mlflow.values.uris import folder_of
from mlcat_ingest.sources.paging import ListingPage, RecentIds, follow

log = logging.getLogger(__name__)

_ERRORS: Final[dict[str, type[MlcatError]]] = {
    "UNAUTHENTICATED": AuthenticationError,
    "CUSTOMER_UNAUTHORIZED": AuthenticationError,
    "PERMISSION_DENIED": NotAuthorizedError,
    "TEMPORARILY_UNAVAILABLE": SourceUnavailableError,
    "REQUEST_LIMIT_EXCEEDED": SourceUnavailableError,
    "INTERNAL_ERROR": SourceUnavailableError,
}

_NO_SUCH_LISTING: Final = frozenset({"ENDPOINT_NOT_FOUND", "NOT_FOUND", "NOT_IMPLEMENTED"})
"""MLflow's error codes for a server or store older than logged models."""

_BY_NAME: Final = {
    "run": "get_run",
    "experiment": "get_experiment",
    "registered": "get_registered_model",
    "version": "get_model_version",
    "logged_model": "get_logged_model",
}
"""MlflowClient's method for each kind of object."""

ResultT = TypeVar("ResultT")


class ClientReader(ApiReader, RequestSide):
    """A `Reader` over MlflowClient: every tracking URI that the installed MLflow can open.

    It is its own connection, since MlflowClient has one workspace a process.
    """

    converters = MappingProxyType(
        {
            "experiments": entities.experiment,
            "registered-models": entities.registered_model,
            "model-versions": entities.model_version,
            "logged-models": entities.logged_model,
        }
    )

    def __init__(self, config: MlflowConfig) -> None:
        """Import mlflow; the store is opened by the first call.

        Raises:
            MissingExtraError: mlflow is not installed.
        """
        require_extra("mlflow", f"the tracking URI {config.public_uri}")
        super().__init__(config)
        self._client: Any = None
        self._calls = 0
        self._server_id: str | None = None

    @property
    def connection(self) -> Self:
        """Itself."""
        return self

    @property
    def workspace(self) -> str:
        """The workspace that the listings are of: the default one."""
        return DEFAULT_WORKSPACE

    def server_id(self) -> str:
        """Return the identity of the store."""
        if self._server_id is None:
            self._server_id = identity(self._config, self.first_created_ms)
        return self._server_id

    def workspaces(self) -> Sequence[Self]:
        """Return itself."""
        return (self,)

    def runs(
        self, experiment_ids: Sequence[str], *, only: RunFilter = ALL_RUNS
    ) -> Iterator[list[Run]]:
        """Yield the runs of some experiments in pages, in the order of their start."""
        query = RunsQuery(only, self._config.page_size)
        pages = PageSize(query.page_size, ENTRIES_A_PAGE)
        seen = RecentIds()
        for ids in chunks(experiment_ids, self.experiments_a_listing):

            def fetch(token: str | None, ids: Sequence[str] = ids) -> ListingPage[Any]:
                return self._page(
                    "search_runs",
                    token or query.first_token,
                    experiment_ids=list(ids),
                    filter_string=query.filter,
                    run_view_type=_stages(query.view),
                    max_results=pages.runs,
                    order_by=query.order_by,
                )

            for page in follow(fetch, listing="MLflow's listing of runs"):
                runs = [entities.run(entity) for entity in page]
                pages.learn(len(runs), entries_of(runs))
                yield query.accept([runs[at] for at in seen.new([run.run_id for run in runs])])
                if query.is_complete():
                    return

    def is_gone(self, target: MlflowObject) -> bool:
        """Return whether the store says that there is no such object, in the trash or not."""
        names = (target.name, target.version) if target.version else (target.name,)
        method = getattr(self._open(), _BY_NAME[target.kind])
        self._calls += 1
        try:
            with self._translate_errors():
                method(*names)
        except (ProtocolMismatchError, NotAuthorizedError) as error:
            return error.context.get("code") == "RESOURCE_DOES_NOT_EXIST"
        return False

    def text_of(self, place: FileLocation, path: str) -> str | None:
        """Return what a file holds, wherever MLflow finds it."""
        if place.uri is None or folder_of(place.uri) is not None:
            return local_text(place, path)
        self._open()
        self._calls += 2
        with self._translate_errors():
            return entities.client_text(self._config.tracking_uri, place, path)

    def clock_ms(self) -> int:
        """Return the time by this machine's clock."""
        return time.time_ns() // 1_000_000

    def requests_made(self) -> int:
        """Return how many pages were asked for so far."""
        return self._calls

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing."""
        try:
            self._open()
        except MlcatError as error:
            yield Finding("MLflow store", "failed", error.message, error.hint)
            return
        yield Finding("MLflow store", "ok", f"{self._config.public_uri} can be opened")
        yield from findings(
            self,
            self._config,
            version=_installed_version(),
            how="credentials of MlflowClient",
            read_by="MlflowClient",
        )

    def close(self) -> None:
        """Forget the store; safe to call twice."""
        self._client = None

    def _items(self, listing: str, query: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
        method = f"search_{listing.replace('-', '_')}"
        arguments = dict(query)
        if "view_type" in arguments:
            arguments["view_type"] = _stages(arguments["view_type"])
        if "filter" in arguments:
            arguments["filter_string"] = arguments.pop("filter")
        try:
            yield from follow(
                lambda token: self._page(method, token, **arguments),
                listing=f"MLflow's listing of {listing}",
            )
        except ProtocolMismatchError as error:
            missing = error.context.get("code") in _NO_SUCH_LISTING
            if listing != "logged-models" or not missing:
                raise

    def _page(self, method: str, token: str | None, **arguments: Any) -> ListingPage[Any]:
        search = getattr(self._open(), method)
        self._calls += 1
        with self._translate_errors():
            page = search(page_token=token, **arguments)
        return ListingPage(page, page.token or None)

    def _open(self) -> Any:
        if self._client is None:
            with self._translate_errors():
                self._client = _open_client(self._config)
        return self._client

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise MLflow's errors as ours meanwhile, and leave out its log lines."""
        with _quiet(), default_store(self._config.tracking_uri, self._config.registry_uri):
            from mlflow.exceptions import MlflowException

            try:
                yield
            except ImportError as error:
                raise RecipeError(
                    f"MLflow cannot read {self._config.public_uri}: {error}",
                    hint="install the driver of this address",
                ) from error
            except (MlflowException, OSError) as error:
                code = getattr(error, "error_code", "TEMPORARILY_UNAVAILABLE")
                message = redact_urls(" ".join(str(error).split())[:300])
                raise _ERRORS.get(code, ProtocolMismatchError)(
                    f"MLflow cannot read {self._config.public_uri}: {message}",
                    context={"code": code},
                ) from error


def _open_client(config: MlflowConfig) -> Any:
    from mlflow import MlflowClient

    _warn_if_untested(_installed_version())
    for uri in {config.tracking_uri, config.registry_uri or config.tracking_uri}:
        check_store(uri)
    return MlflowClient(tracking_uri=config.tracking_uri, registry_uri=config.registry_uri)


def _installed_version() -> str:
    from mlflow.version import VERSION

    return str(VERSION)


@cache
def _warn_if_untested(version: str) -> None:
    """Warn once a process about an MLflow that is not among the tested ones."""
    problem = support_warning(version, "MlflowClient")
    if problem is not None:
        log.warning("the installed mlflow %s", problem)


def _stages(view: str) -> int:
    from mlflow.entities import ViewType

    return int(ViewType.from_string(view.lower()))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep MLflow's and Alembic's lines below errors, and their warnings, off the terminal."""
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
