"""Experiments and runs from one place, the model registry from another."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Self

from mlcat_ingest.core.awaiting import Awaited, longest_awaited
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.sources.mlflow.read.file_access import FileLocation
from mlcat_ingest.sources.mlflow.read.reader import (
    ALL_MODELS,
    ALL_RUNS,
    ModelFilter,
    Reader,
    RunFilter,
    Thing,
)
from mlcat_ingest.sources.mlflow.values.records import (
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
)


class SplitReader:
    """A `Reader` over two others: what it reads is identified by the first."""

    def __init__(self, tracking: Reader, registry: Reader) -> None:
        """Own both readers."""
        self._tracking = tracking
        self._registry = registry

    @property
    def workspace(self) -> str:
        """The workspace that the listings are of."""
        return self._tracking.workspace

    def server_id(self) -> str:
        """Return the identity of the tracking server."""
        return self._tracking.server_id()

    def workspaces(self) -> Sequence[str]:
        """Return the names of the tracking server's workspaces."""
        return self._tracking.workspaces()

    def in_workspace(self, name: str) -> Self:
        """Return a reader of another workspace of both."""
        return type(self)(self._tracking.in_workspace(name), self._registry.in_workspace(name))

    def experiments(self) -> Iterator[list[Experiment]]:
        """Yield all experiments in pages."""
        return self._tracking.experiments()

    def registered_models(self) -> Iterator[list[RegisteredModel]]:
        """Yield all registered models in pages, without prompts."""
        return self._registry.registered_models()

    def model_versions(self) -> Iterator[list[ModelVersion]]:
        """Yield the versions of all registered models in pages, prompts left out."""
        return self._registry.model_versions()

    def logged_models(
        self, experiment_ids: Sequence[str], *, only: ModelFilter = ALL_MODELS
    ) -> Iterator[list[LoggedModel]]:
        """Yield the logged models of some experiments in pages."""
        return self._tracking.logged_models(experiment_ids, only=only)

    def runs(
        self, experiment_ids: Sequence[str], *, only: RunFilter = ALL_RUNS
    ) -> Iterator[list[Run]]:
        """Yield the runs of some experiments in pages, in the order of their start."""
        # The tracking server does not know which runs the registry's versions were made from.
        return self._tracking.runs(experiment_ids, only=replace(only, select="all"))

    def has_run(self, experiment_id: str, at: int) -> bool:
        """Return whether an experiment has more than `at` runs; see `Reader`."""
        return self._tracking.has_run(experiment_id, at)

    def is_gone(self, thing: Thing) -> bool:
        """Return whether the server that has things of its kind says that there is none."""
        home = self._tracking if thing.kind in {"run", "experiment"} else self._registry
        return home.is_gone(thing)

    def text_of(self, place: FileLocation, path: str) -> str | None:
        """Return what a file holds that the tracking server has; see `ReadsFiles`."""
        return self._tracking.text_of(place, path)

    def clock_ms(self) -> int:
        """Return the time by the clock of the tracking server."""
        return self._tracking.clock_ms()

    def awaited(self) -> Awaited | None:
        """Return the request that waits longest for its answer; see `Awaits`."""
        return longest_awaited(self._tracking, self._registry)

    def requests_made(self) -> int:
        """Return how many requests were sent to both."""
        return self._tracking.requests_made() + self._registry.requests_made()

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found about the tracking server, then the registry."""
        yield from self._tracking.check()
        try:
            models = sum(len(page) for page in self._registry.registered_models())
        except MlcatError as error:
            yield Finding("MLflow registry", "failed", error.message, error.hint)
            return
        yield Finding("MLflow registry", "ok", f"{models} registered models")

    def close(self) -> None:
        """Release connections; safe to call twice."""
        self._tracking.close()
        self._registry.close()
