"""Reads what only MlflowClient can open: folders, schemes of plug-ins. Needs the extra `mlflow`.

The records equal those of the REST reader over the same store: they are made of the same JSON, to
which the installed MLflow converts its entities. Opening a store changes nothing: MLflow would
create a database or a folder that is not there, and migrate an older database.
"""

import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final, Self, TypeVar

from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.core.environment import require_extra
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.paging import ListingPage, RecentIds, chunks, follow
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
from mlcat_ingest.sources.mlflow.read.checks import (
    WORKSPACES,
    findings,
    links_finding,
    support_warning,
)
from mlcat_ingest.sources.mlflow.read.decode import Json
from mlcat_ingest.sources.mlflow.read.folders import damage_left_out, warn_of_damage
from mlcat_ingest.sources.mlflow.read.listing import (
    ENTRIES_A_PAGE,
    RUNS_LISTING,
    ApiReader,
    PageSize,
    RunsQuery,
    entries_of,
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
    local_text,
)
from mlcat_ingest.sources.mlflow.values.records import Run
from mlcat_ingest.sources.mlflow.values.uris import folder_of, is_database

_TIMEOUT_S: Final = 120.0
_UPGRADE: Final = (
    "read it through its MLflow server, or migrate it with `mlflow db upgrade`; if another program "
    "wrote that revision, give each program a database of its own"
)
_ANSWERS: Final[ContextVar[Mapping[str, Any]]] = ContextVar(
    "_ANSWERS", default=MappingProxyType({})
)
"""The values that MLflow's variables have in this thread instead of the environment's."""

log = logging.getLogger(__name__)

_ERRORS: Final[dict[str, type[MlcatError]]] = {
    "UNAUTHENTICATED": AuthenticationError,
    "CUSTOMER_UNAUTHORIZED": AuthenticationError,
    "PERMISSION_DENIED": NotAuthorizedError,
    "TEMPORARILY_UNAVAILABLE": SourceUnavailableError,
    "REQUEST_LIMIT_EXCEEDED": SourceUnavailableError,
    "INTERNAL_ERROR": SourceUnavailableError,
}

_DAMAGED: Final = "DAMAGED"
"""The code of an error about a folder without the files of MLflow."""

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


def check_store(uri: str) -> None:
    """Return if MLflow can open `uri` without changing it; addresses of servers always pass.

    Raises:
        RecipeError: there is no such file or folder, or the database's driver is not installed.
        SourceUnavailableError, AuthenticationError, NotAuthorizedError: the database does not
            answer, or does not let us in.
        ProtocolMismatchError: it is no MLflow store, or of another MLflow version.
    """
    if is_database(uri):
        from mlcat_ingest.sources.mlflow.read.database.access import Database

        with closing(Database(uri, timeout_s=_TIMEOUT_S)) as database:
            _check_revision(database.shown, database.revisions())
    elif (folder := folder_of(uri)) is not None:
        if not folder.is_dir():
            raise RecipeError(f"tracking_uri: no folder {folder}")
        if next(folder.glob("*/meta.yaml"), None) is None:
            raise ProtocolMismatchError(
                f"{folder} is not an MLflow store: it contains no experiment"
            )


@contextmanager
def default_store(tracking_uri: str, registry_uri: str | None, **variables: Any) -> Iterator[None]:
    """Let MLflow take an address for its default in this thread meanwhile, a folder too.

    Further `variables` of MLflow have these values meanwhile.

    Plug-ins that sign requests ask for the default address, and so does a registry in a folder,
    which would make a store in the working directory; MLflow refuses folders since 3.13. Only
    variables of the environment change that, and all threads of the host would see them. So
    MLflow's own objects for these variables answer otherwise while this thread is in here; the
    environment stays as it is.
    """
    # MlflowClient would read another workspace, and name it as the default one.
    answers: dict[str, Any] = {"MLFLOW_TRACKING_URI": tracking_uri, "MLFLOW_WORKSPACE": None}
    answers |= variables
    if folder_of(tracking_uri) is not None or (registry_uri and folder_of(registry_uri)):
        answers["MLFLOW_ALLOW_FILE_STORE"] = True
    for name in answers:
        _let_answer(name)
    before = _ANSWERS.set(answers)
    try:
        yield
    finally:
        _ANSWERS.reset(before)


@cache
def _let_answer(name: str) -> None:
    """Let MLflow's variable `name` answer as `_ANSWERS` does, and else as it would."""
    from mlflow import environment_variables

    variable: Any = getattr(environment_variables, name, None)
    if variable is None:
        return  # an MLflow that does not refuse folders
    read = variable.get

    def get() -> Any:
        answers = _ANSWERS.get()
        return answers[name] if name in answers else read()

    variable.get = get


def _check_revision(shown: str, found: Sequence[str]) -> None:
    from mlflow.store.db.utils import _get_latest_schema_revision
    from mlflow.version import VERSION

    newest = _get_latest_schema_revision()  # type: ignore[no-untyped-call]
    if newest not in found:
        raise ProtocolMismatchError(
            f"the database {shown} has a schema of another MLflow version than {VERSION}: "
            f"{', '.join(found)}",
            hint=_UPGRADE,
        )


def client_text(tracking_uri: str, place: FileLocation, path: str) -> str | None:
    """Return the content of a file, by MLflow's own client."""
    from mlflow.artifacts import download_artifacts, list_artifacts
    from mlflow.exceptions import MlflowException

    address = f"{place.uri}/{path}"
    folder, _, name = address.rpartition("/")
    try:
        listed = list_artifacts(artifact_uri=folder, tracking_uri=tracking_uri)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise
    listed_file = next((file for file in listed if file.path.rpartition("/")[2] == name), None)
    if listed_file is None or listed_file.is_dir or (listed_file.file_size or 0) > MAX_BYTES:
        return None
    with TemporaryDirectory() as own:
        file = download_artifacts(artifact_uri=address, dst_path=own, tracking_uri=tracking_uri)
        return Path(file).read_text("utf-8", "replace")


class ClientReader(ApiReader, MlflowConnection):
    """A `Reader` over MlflowClient: every tracking URI that the installed MLflow can open.

    It is its own connection, since MlflowClient has one workspace a process.
    """

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
        self._damage: set[str] = set()

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
        seen = RecentIds(RUNS_LISTING)
        for ids in chunks(experiment_ids, self.experiments_a_listing):

            def fetch(token: str | None, ids: Sequence[str] = ids) -> ListingPage[Any]:
                return self._page("runs", query.body(ids, pages.runs), token)

            for page in follow(fetch, listing=RUNS_LISTING):
                runs = self._usable("runs", page)
                pages.learn(len(runs), entries_of(runs))
                yield query.accept([runs[at] for at in seen.new([run.run_id for run in runs])])
                if query.left == 0:
                    return

    def is_gone(self, target: MlflowObject) -> bool:
        """Return whether the store reports that the object does not exist, also not in trash.

        A workspace is not: MlflowClient has one a process.
        """
        if target.kind == "workspace":
            return False
        names = (target.name, target.version) if target.version else (target.name,)
        method = getattr(self._open(), _BY_NAME[target.kind])
        self._calls += 1
        try:
            with self._translate_errors():
                method(*names)
        except (ProtocolMismatchError, NotAuthorizedError) as error:
            if error.context.get("code") == _DAMAGED:
                warn_of_damage(error.message, self._damage)
            return error.context.get("code") == "RESOURCE_DOES_NOT_EXIST"
        return False

    def text_of(self, place: FileLocation, path: str) -> str | None:
        """Return the content of a file, by MLflow if it is not on this machine."""
        if place.uri is None or folder_of(place.uri) is not None:
            return local_text(place, path)
        self._open()
        self._calls += 2
        with self._translate_errors():
            return client_text(self._config.tracking_uri, place, path)

    def clock_ms(self) -> int:
        """Return the time by this machine's clock."""
        return now_ms()

    def check_user(self) -> Iterator[Finding]:
        """Yield a warning if the store has further workspaces, which are not read."""
        try:
            client = self._open()
            # A server without workspaces answers 503, which MLflow would try again for minutes.
            with self._translate_errors(MLFLOW_HTTP_REQUEST_MAX_RETRIES=0):
                named = [one.name for one in client.list_workspaces()]
        except (MlcatError, AttributeError):
            return  # an MLflow or a store without workspaces
        further = sorted({*named} - {DEFAULT_WORKSPACE})
        if further:
            names = ", ".join(further[:10])
            text = f"MlflowClient reads the default one alone, and not {len(further)}: {names}"
            hint = "read the server or its database without `reader: client`"
            yield Finding(WORKSPACES, "warning", text, hint)

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
        yield from self.check_user()
        yield from findings(
            self,
            self._config,
            version=_installed_version(),
            how="credentials of MlflowClient",
            read_by="MlflowClient",
        )
        yield links_finding(self._config)

    def close(self) -> None:
        """Forget the store; safe to call twice."""
        self._client = None

    @staticmethod
    def json_of(item: Any) -> Json:
        """Return the JSON that a server makes of an entity.

        Raises:
            ValueError: the entity has a value that MLflow's protocol buffers do not take.
        """
        from mlflow.utils.proto_json_utils import message_to_json

        try:
            value = json.loads(message_to_json(item.to_proto()))
        except Exception as error:  # MLflow raises no other for a status that it does not know
            raise ValueError(f"MLflow cannot convert it: {error}") from error
        # MLflow converts a version without its logged model, which a folder tells.
        return {"model_id": getattr(item, "model_id", None), **value}

    def _items(self, listing: str, query: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
        try:
            yield from super()._items(listing, query)
        except ProtocolMismatchError as error:
            missing = error.context.get("code") in _NO_SUCH_LISTING
            if listing != "logged-models" or not missing:
                raise

    def _page(self, listing: str, query: Mapping[str, Any], token: str | None) -> ListingPage[Any]:
        search = getattr(self._open(), f"search_{listing.replace('-', '_')}")
        self._calls += 1
        with self._translate_errors():
            page = search(**_arguments({**query, **token_param(token)}))
        # MLflow's own stores give bytes.
        after = page.token.decode() if isinstance(page.token, bytes) else page.token
        return ListingPage(page, after)

    def _open(self) -> Any:
        if self._client is None:
            with self._translate_errors():
                self._client = _open_client(self._config)
        return self._client

    @contextmanager
    def _translate_errors(self, **variables: Any) -> Iterator[None]:
        """Raise MLflow's errors as ours meanwhile, and leave out its log lines."""
        uris = (self._config.tracking_uri, self._config.registry_uri)
        with ExitStack() as meanwhile:
            meanwhile.enter_context(_quiet())
            meanwhile.enter_context(default_store(*uris, **variables))
            if any(uri and folder_of(uri) for uri in uris):
                meanwhile.enter_context(damage_left_out(self._damage))
            from mlflow.exceptions import MissingConfigException, MlflowException

            try:
                yield
            except ImportError as error:
                raise RecipeError(
                    f"MLflow cannot read {self._config.public_uri}: {error}",
                    hint="install the driver of this address",
                ) from error
            except (MlflowException, OSError) as error:
                code = getattr(error, "error_code", "TEMPORARILY_UNAVAILABLE")
                if isinstance(error, MissingConfigException):
                    code = _DAMAGED
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


def _arguments(query: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments by which MlflowClient sends the request `query`."""
    from mlflow.entities import ViewType

    arguments = dict(query)
    for name in arguments.keys() & {"view_type", "run_view_type"}:
        arguments[name] = int(ViewType.from_string(arguments[name].lower()))
    if "filter" in arguments:
        arguments["filter_string"] = arguments.pop("filter")
    return arguments


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
