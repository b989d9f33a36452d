"""The interface of readers of MLflow: the same records in bulk."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from mlcat_ingest.core.findings import Finding, RequestSide
from mlcat_ingest.errors import SourceUnavailableError
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.sources.mlflow.config import MlflowConfig, RunSelect
from mlcat_ingest.sources.mlflow.read.decode import Refusals
from mlcat_ingest.sources.mlflow.values.assets import Asset, AssetKind
from mlcat_ingest.sources.mlflow.values.records import (
    EXTERNAL_TAG,
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
)
from mlcat_ingest.sources.mlflow.values.uris import folder_of, normalise_uri

MAX_BYTES: Final = 1024 * 1024
"""Size of the largest file that is read; one that is larger counts as not there."""

Kind = Literal["run", "experiment", "registered", "version", "logged_model"]
"""The kinds of objects that MLflow has by name."""

IDS_A_LISTING: Final = 100
"""Most ids in a `RunFilter` or a `ModelFilter`: MLflow parses them in time that grows faster."""

SAFE_ID: Final = re.compile(r"[\w.-]+")
"""An id that can be used in a filter of MLflow's search language."""


class FileLocation(NamedTuple):
    """A run or a logged model, whose files are at `uri`."""

    kind: Literal["run", "model"]
    id: str
    uri: str | None


class ReadsFiles(Protocol):
    """A reader that can get at files."""

    def text_of(self, place: FileLocation, path: str) -> str | None:
        """Return the content of a file; None if there is none, or it cannot be reached from here.

        Raises:
            SourceUnavailableError, AuthenticationError, NotAuthorizedError,
            ProtocolMismatchError: it is not known whether there is one.

        Cost: two requests over a network.
        """


def local_text(place: FileLocation, path: str) -> str | None:
    """Return the content of a file in a folder of this machine, None for any other place.

    Raises:
        SourceUnavailableError: it is there and cannot be read.
    """
    folder = folder_of(place.uri) if place.uri else None
    if folder is None:
        return None
    file = folder / path
    try:
        if not file.resolve().is_relative_to(folder.resolve()):
            return None
        if not file.is_file() or file.stat().st_size > MAX_BYTES:
            return None
        return file.read_text("utf-8", "replace")
    except OSError as error:
        raise SourceUnavailableError(f"cannot read {file}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class RunFilter:
    """A filter of runs; every condition that is given has to hold.

    They started at `since_ms` or later and before `before_ms`, ended at `ended_since_ms` or later,
    are in one of `statuses`, are among `run_ids`, are in the trash with `deleted`. With
    `limit` only so many, the newest first; without it the oldest come first. The first `skip` runs
    of at most `listing.EXPERIMENTS_A_LISTING` experiments are left out. By `select` a reader may
    leave out runs that the recipe's option of that name leaves out; it need not.
    """

    since_ms: int | None = None
    before_ms: int | None = None
    ended_since_ms: int | None = None
    statuses: tuple[str, ...] = ()
    run_ids: tuple[str, ...] | None = None
    deleted: bool = False
    limit: int | None = None
    skip: int = 0
    select: RunSelect = "all"

    def times(self) -> Iterator[tuple[str, str, int]]:
        """Yield the conditions on times: a field as MLflow has it, an operator, milliseconds."""
        for field, operator, time_ms in (
            ("start_time", ">=", self.since_ms),
            ("start_time", "<", self.before_ms),
            ("end_time", ">=", self.ended_since_ms),
        ):
            if time_ms is not None:
                yield field, operator, time_ms

    def accepts(self, run: Run) -> bool:
        """Return whether `run` started at `since_ms` or later, and is in one of `statuses`."""
        in_status = not self.statuses or run.status in self.statuses
        return in_status and (self.since_ms is None or self.since_ms <= (run.start_time_ms or 0))


ALL_RUNS: Final = RunFilter()


@dataclass(frozen=True, slots=True)
class ModelFilter:
    """A filter of logged models; every condition that is given has to hold.

    They were changed at `updated_since_ms` or later, made by one of `run_ids`, are among
    `model_ids`. With `newest_external` only so many that have the tag of external models, the
    newest first.
    """

    updated_since_ms: int | None = None
    run_ids: tuple[str, ...] | None = None
    model_ids: tuple[str, ...] | None = None
    newest_external: int | None = None

    def accepts(self, model: LoggedModel) -> bool:
        """Return whether every condition holds for `model`, however many there are."""
        return (
            (
                self.updated_since_ms is None
                or self.updated_since_ms <= (model.last_updated_at_ms or 0)
            )
            and (self.run_ids is None or model.source_run_id in self.run_ids)
            and (self.model_ids is None or model.model_id in self.model_ids)
            and (self.newest_external is None or model.tags.get(EXTERNAL_TAG) == "true")
        )


ALL_MODELS: Final = ModelFilter()


@dataclass(frozen=True, slots=True)
class MlflowObject:
    """An object that MLflow has by name or id; a registered model by name.

    A version is that of the registered model `name`. A workspace contains the others.
    """

    kind: Kind | AssetKind | Literal["workspace"]
    name: str
    version: str = ""


class MlflowConnection(RequestSide, Protocol):
    """The connection to one server or store, which the readers of all its workspaces share."""

    def requests_made(self) -> int:
        """Return how many requests were sent so far."""

    def clock_ms(self) -> int:
        """Return the time by the clock of the server, by this machine's where it does not tell."""

    def check_user(self) -> Iterator[Finding]:
        """Yield whether the user may read everything, nothing where that is not known."""
        return iter(())

    def notes(self) -> Iterator[Note]:
        """Yield what a run says about the server or store itself."""
        return iter(())

    def close(self) -> None:
        """Release connections; safe to call twice."""


class Reader(ReadsFiles, Protocol):
    """Reads one workspace of one MLflow server, listing by listing, never a request per record.

    Every listing holds what is active and what is deleted, each record once. Nothing is contacted
    before the first call. All methods raise the errors that `sources.base.Source.read` names.
    """

    @property
    def connection(self) -> MlflowConnection:
        """The connection that is read from."""

    @property
    def workspace(self) -> str:
        """The workspace that the listings are of; `default` where the server has none."""

    @property
    def refusals(self) -> Refusals:
        """The records of the listings that cannot be read: the listings leave them out."""

    def server_id(self) -> str:
        """Return the identity of the server, equal for every reader of one store.

        The option `server_id`, else 12 hex of SHA-256 of the creation time of experiment 0 (in
        decimal milliseconds), else of the normalised URI without credentials, with the schema of a
        database if it is not the default one.
        """

    def workspaces(self) -> Sequence["Reader"]:
        """Return a reader of each workspace, that of `default` alone where the server has none.

        The reader itself is that of its own workspace.
        """

    def experiments(self) -> Iterator[list[Experiment]]:
        """Yield all experiments in pages; listed once and kept, so a second call is free."""

    def registered_models(self) -> Iterator[list[RegisteredModel]]:
        """Yield all registered models in pages, without the prompts among them."""

    def narrow_registry(self, names: Sequence[str]) -> None:
        """List only the registered models with these names from now on, where that costs less."""

    def model_versions(self) -> Iterator[list[ModelVersion]]:
        """Yield the versions of all registered models in pages, prompts left out.

        `aliases` are those of the registered model: the versions' own are empty on SQL stores.
        Nothing is requested where there are no registered models.
        """

    def logged_models(
        self, experiment_ids: Sequence[str], *, only: ModelFilter = ALL_MODELS
    ) -> Iterator[list[LoggedModel]]:
        """Yield the logged models of some experiments in pages, in the order they were made.

        None where `checks.MlflowFeature.LOGGED_MODELS` is missing. A server without the endpoint
        is asked once.
        """

    def runs(
        self, experiment_ids: Sequence[str], *, only: RunFilter = ALL_RUNS
    ) -> Iterator[list[Run]]:
        """Yield the runs of some experiments in pages, in the order of their start.

        Cost: one request a page; two more pages may be asked for ahead. Memory for the pages
        under way.
        """

    def parents(self, experiment_ids: Sequence[str], *, only: RunFilter) -> Collection[str] | None:
        """Return the ids that the runs of some experiments name as their parents.

        Of the runs in `only`, without regard to its `select` and `limit`. None where only a
        listing of all runs can tell.
        """

    def run_digests(
        self, experiment_ids: Sequence[str], before_ms: Sequence[int]
    ) -> Sequence[Mapping[str, str]] | None:
        """Return a digest of the ids of the runs of each experiment, for each moment.

        Of the runs that started before that moment. None where only listings of runs can tell.
        """

    def assets(self, kind: str) -> Sequence[Asset] | None:
        """Return all assets of a kind of `values.assets`; None where MLflow has no such.

        Raises:
            RecipeError: this reader cannot read them.

        Cost: over MLflow's API a request for each 1,000, and one for the versions of each MCP
        server and skill.
        """

    def is_gone(self, target: MlflowObject) -> bool:
        """Return whether the server reports that the object does not exist, not even in the trash.

        False if it is denied to us. Cost: one request.
        """

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing."""


def identity(
    config: MlflowConfig,
    first_created_ms: Callable[[], int | None],
    in_schema: Callable[[str], str] = str,
) -> str:
    """Return the server's identity; experiment 0's creation time is looked up if it matters.

    `in_schema` adds the schema to the address of a database.
    """
    if config.server_id is not None:
        return config.server_id
    created_ms = first_created_ms()
    seed = str(created_ms) if created_ms else in_schema(normalise_uri(config.tracking_uri))
    return hashlib.sha256(seed.encode()).hexdigest()[:12]
