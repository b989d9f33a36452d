"""Reads what only MlflowClient can open: databases, folders, Databricks. Needs the extra `mlflow`.

The records equal those of the REST reader over the same store. Opening a store changes nothing:
MLflow would create a database or a folder that is not there, and migrate an older database.
"""

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, Self, TypeVar

from mlcat_ingest.awaiting import Awaits
from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.extras import require_extra
from mlcat_ingest.findings import Finding
from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE
from mlcat_ingest.redaction import redact_urls
from mlcat_ingest.sources.mlflow import entities
from mlcat_ingest.sources.mlflow.checks import findings
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.decode import Aliases, is_prompt
from mlcat_ingest.sources.mlflow.file_access import Place, client_text, local_text
from mlcat_ingest.sources.mlflow.listing import (
    ENTRIES_A_PAGE,
    EXPERIMENTS_A_LISTING,
    EXPERIMENTS_PAGE,
    LOGGED_MODELS_ORDER,
    LOGGED_MODELS_PAGE,
    MODELS_PAGE,
    VERSIONS_PAGE,
    PageSize,
    RunsQuery,
    chunks,
    entries_of,
    models_filter,
)
from mlcat_ingest.sources.mlflow.paging import Page, RecentIds, follow, token_at
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
from mlcat_ingest.sources.mlflow.releases import untested
from mlcat_ingest.sources.mlflow.stores import check_store, folders_allowed
from mlcat_ingest.sources.mlflow.uris import folder_of

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
"""What MLflow says of servers and stores older than logged models."""

_BY_NAME: Final = {
    "run": "get_run",
    "experiment": "get_experiment",
    "registered": "get_registered_model",
    "version": "get_model_version",
}
"""MlflowClient's method for each kind of thing."""

ResultT = TypeVar("ResultT")


class ClientReader(Awaits):
    """A `Reader` over MlflowClient: every tracking URI that the installed MLflow can open."""

    def __init__(self, config: MlflowConfig) -> None:
        """Import mlflow; the store is opened by the first call.

        Raises:
            MissingExtraError: mlflow is not installed.
        """
        require_extra("mlflow", f"the tracking URI {config.public_uri}")
        self._config = config
        self._client: Any = None
        self._calls = 0
        self._identity: str | None = None
        self._experiments: list[list[Experiment]] | None = None
        self._models: list[list[RegisteredModel]] | None = None
        self._prompts: set[str] = set()

    @property
    def workspace(self) -> str:
        """The workspace that the listings are of: the default one."""
        return DEFAULT_WORKSPACE

    def server_id(self) -> str:
        """Return the identity of the store; see `Reader`."""
        if self._identity is None:
            created = None
            if self._config.server_id is None:
                every = (found for page in self.experiments() for found in page)
                created = next((e.created_at_ms for e in every if e.experiment_id == "0"), None)
            self._identity = identity(self._config, created)
        return self._identity

    def workspaces(self) -> Sequence[str]:
        """Return the default workspace alone: MlflowClient has one a process."""
        return (DEFAULT_WORKSPACE,)

    def in_workspace(self, name: str) -> Self:
        """Return itself for the default workspace.

        Raises:
            ProtocolMismatchError: for any other.
        """
        if name != DEFAULT_WORKSPACE:
            raise ProtocolMismatchError(
                f"workspace {name!r} cannot be read from {self._config.public_uri}",
                hint="give the address of its MLflow server as `tracking_uri`",
            )
        return self

    def experiments(self) -> Iterator[list[Experiment]]:
        """Yield all experiments in pages; listed once and kept."""
        if self._experiments is None:
            seen = RecentIds()
            self._experiments = []
            for page in self._listed(
                "experiments",
                "search_experiments",
                view_type=_stages("ALL"),
                max_results=EXPERIMENTS_PAGE,
                order_by=["creation_time ASC"],
            ):
                found = [entities.experiment(one) for one in page]
                fresh = seen.new([one.experiment_id for one in found])
                self._experiments.append([found[at] for at in fresh])
        yield from self._experiments

    def registered_models(self) -> Iterator[list[RegisteredModel]]:
        """Yield all registered models in pages, without prompts; listed once and kept."""
        if self._models is None:
            seen = RecentIds()
            self._models = []
            for page in self._listed(
                "registered-models", "search_registered_models", max_results=MODELS_PAGE
            ):
                found = [entities.registered_model(one) for one in page]
                fresh = [found[at] for at in seen.new([one.name for one in found])]
                self._prompts.update(one.name for one in fresh if is_prompt(one.tags))
                self._models.append([one for one in fresh if not is_prompt(one.tags)])
        yield from self._models

    def model_versions(self) -> Iterator[list[ModelVersion]]:
        """Yield the versions of all registered models in pages, prompts left out."""
        models = [model for page in self.registered_models() for model in page]
        if not models:
            return
        aliases = Aliases(models)
        seen = RecentIds()
        for page in self._listed(
            "model-versions",
            "search_model_versions",
            max_results=VERSIONS_PAGE,
            order_by=["name ASC", "version_number ASC"],
        ):
            found = [
                entities.model_version(one, aliases.of(one.name, str(one.version))) for one in page
            ]
            fresh = [found[at] for at in seen.new([f"{v.name}/{v.version}" for v in found])]
            yield [
                one for one in fresh if one.name not in self._prompts and not is_prompt(one.tags)
            ]

    def logged_models(
        self, experiment_ids: Sequence[str], *, only: ModelFilter = ALL_MODELS
    ) -> Iterator[list[LoggedModel]]:
        """Yield the logged models of some experiments in pages."""
        seen = RecentIds()
        for ids in chunks(experiment_ids, EXPERIMENTS_A_LISTING):
            pages = self._listed(
                "logged-models",
                "search_logged_models",
                experiment_ids=list(ids),
                filter_string=models_filter(only) or None,
                max_results=LOGGED_MODELS_PAGE,
                order_by=LOGGED_MODELS_ORDER,
            )
            try:
                for page in pages:
                    found = [entities.logged_model(one) for one in page]
                    yield [found[at] for at in seen.new([one.model_id for one in found])]
            except ProtocolMismatchError as error:
                if error.context.get("code") not in _NO_SUCH_LISTING:
                    raise
                return

    def runs(
        self, experiment_ids: Sequence[str], *, only: RunFilter = ALL_RUNS
    ) -> Iterator[list[Run]]:
        """Yield the runs of some experiments in pages, in the order of their start."""
        query = RunsQuery(only, self._config.page_size)
        pages = PageSize(query.page_size, ENTRIES_A_PAGE)
        seen = RecentIds()
        for ids in chunks(experiment_ids, EXPERIMENTS_A_LISTING):

            def fetch(token: str | None, ids: Sequence[str] = ids) -> Page[Any]:
                return self._page(
                    "search_runs",
                    token,
                    experiment_ids=list(ids),
                    filter_string=query.filter,
                    run_view_type=_stages(query.view),
                    max_results=pages.runs,
                    order_by=query.order_by,
                )

            for page in follow(fetch, listing="runs"):
                found = [entities.run(one) for one in page]
                pages.saw(len(found), entries_of(found))
                yield query.taken([found[at] for at in seen.new([one.run_id for one in found])])
                if query.satisfied():
                    return

    def has_run(self, experiment_id: str, at: int) -> bool:
        """Return whether an experiment has more than `at` runs; see `Reader`."""
        query = RunsQuery(ALL_RUNS, 1)
        page = self._page(
            "search_runs",
            token_at(at),
            experiment_ids=[experiment_id],
            run_view_type=_stages(query.view),
            max_results=query.page_size,
            order_by=query.order_by,
        )
        return bool(page.items)

    def is_gone(self, thing: Thing) -> bool:
        """Return whether the store says that there is no such thing; see `Reader`."""
        names = (thing.name, thing.version) if thing.version else (thing.name,)
        client = self._open()
        self._calls += 1
        try:
            self._called(lambda: getattr(client, _BY_NAME[thing.kind])(*names))
        except (ProtocolMismatchError, NotAuthorizedError) as error:
            return error.context.get("code") == "RESOURCE_DOES_NOT_EXIST"
        return False

    def text_of(self, place: Place, path: str) -> str | None:
        """Return what a file holds, wherever MLflow finds it; see `ReadsFiles`."""
        if place.uri is None or folder_of(place.uri) is not None:
            return local_text(place, path)
        self._open()
        self._calls += 2
        return self._called(lambda: client_text(self._config.tracking_uri, place, path))

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
            version=_installed(),
            how="those of MlflowClient",
            read_by="MlflowClient",
        )

    def close(self) -> None:
        """Forget the store; safe to call twice."""
        self._client = None

    def _listed(self, listing: str, method: str, **arguments: Any) -> Iterator[Sequence[Any]]:
        return follow(lambda token: self._page(method, token, **arguments), listing=listing)

    def _page(self, method: str, token: str | None, **arguments: Any) -> Page[Any]:
        client = self._open()
        self._calls += 1
        page = self._called(lambda: getattr(client, method)(page_token=token, **arguments))
        return Page(page, page.token or None)

    def _open(self) -> Any:
        if self._client is None:
            config = self._config
            self._client = self._called(lambda: _client(config))
        return self._client

    def _called(self, call: Callable[[], ResultT]) -> ResultT:
        """Return what `call` returns, MLflow's errors as ours and its log lines left out."""
        with _quiet(), folders_allowed(self._config.tracking_uri, self._config.registry_uri):
            from mlflow.exceptions import MlflowException

            try:
                return call()
            except MlflowException as error:
                raise self._failure(str(error), error.error_code) from error
            except ImportError as error:
                raise RecipeError(
                    f"MLflow cannot read {self._config.public_uri}: {error}",
                    hint="install the driver that its address names",
                ) from error
            except OSError as error:
                raise self._failure(str(error), "TEMPORARILY_UNAVAILABLE") from error

    def _failure(self, text: str, code: str) -> MlcatError:
        kind = _ERRORS.get(code, ProtocolMismatchError)
        said = redact_urls(" ".join(text.split())[:300])
        return kind(f"MLflow cannot read {self._config.public_uri}: {said}", context={"code": code})


def _client(config: MlflowConfig) -> Any:
    from mlflow import MlflowClient

    _say_version(_installed())
    registry = config.registry_uri or config.tracking_uri
    for uri in {config.tracking_uri, registry}:
        check_store(uri)
    return MlflowClient(tracking_uri=config.tracking_uri, registry_uri=config.registry_uri)


def _installed() -> str:
    from mlflow.version import VERSION

    return str(VERSION)


@cache
def _say_version(version: str) -> None:
    """Warn once a process about an MLflow that is not among the tested ones."""
    problem = untested(version, "MlflowClient")
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
