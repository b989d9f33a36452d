"""Joins runs with their registered versions, logged models and files, without a request a run.

Small indexes over MLflow's listings hold what the listing of runs has not come to yet.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mlcat_ingest.errors import (
    AuthenticationError,
    NotAuthorizedError,
    ProtocolMismatchError,
    SourceUnavailableError,
)
from mlcat_ingest.links.evidence import FEAST_FILE, feast_tags
from mlcat_ingest.sources.mlflow.read.listing import chunks, entries_of
from mlcat_ingest.sources.mlflow.read.reader import (
    IDS_A_LISTING,
    SAFE_ID,
    FileLocation,
    ModelFilter,
    ReadsFiles,
)
from mlcat_ingest.sources.mlflow.values.joined import FeatureFiles, JoinedRun, JoinedVersion
from mlcat_ingest.sources.mlflow.values.records import (
    LoggedModel,
    ModelVersion,
    Run,
    input_names,
    logged_history,
    number_of,
)

_MODEL_URI: Final = "models:/m-"
# A model can be logged to a run that has ended; a day later it is not looked for any more.
_LATE_MS: Final = 86_400_000

HELD_ENTRIES: Final = 20_000
"""Parameters, metrics and tags of runs that versions hold while they wait for lower ones: those of
500 ordinary runs."""
_VERSION_ENTRIES: Final = 20

_Key = tuple[str, str]

log = logging.getLogger(__name__)
_SPEC_FILE: Final = "data/feature_store/feature_spec.yaml"
_MODEL_FILE: Final = "MLmodel"
_CANNOT_TELL: Final = (
    SourceUnavailableError,
    AuthenticationError,
    NotAuthorizedError,
    ProtocolMismatchError,
)


class VersionsByOrigin:
    """The versions of all registered models, by the run or logged model they were made from.

    Cost: holds every version until its run was read.
    """

    def __init__(self, pages: Iterable[Sequence[ModelVersion]]) -> None:
        """Index the versions of all `pages`."""
        self._by_run: dict[str, list[ModelVersion]] = {}
        self._by_model: dict[str, list[ModelVersion]] = {}
        self._alone: list[ModelVersion] = []
        self._newest: dict[str, str] = {}
        for page in pages:
            for version in page:
                self._add(version)

    def _add(self, version: ModelVersion) -> None:
        newest = self._newest.get(version.name)
        if newest is None or number_of(version.version) > number_of(newest):
            self._newest[version.name] = version.version
        model_id = logged_model_id(version)
        if version.run_id:
            self._by_run.setdefault(version.run_id, []).append(version)
        elif model_id is not None:
            self._by_model.setdefault(model_id, []).append(version)
        else:
            self._alone.append(version)

    def newest(self, name: str) -> tuple[str, ...]:
        """Return the newest version of registered model `name`, alone in a tuple, or nothing."""
        number = self._newest.get(name)
        return () if number is None else (number,)

    def take(self, run: Run) -> tuple[ModelVersion, ...]:
        """Return the versions made from `run`, and forget them."""
        found = self._by_run.pop(run.run_id, None)
        if not self._by_model:
            return tuple(found) if found else ()
        versions = found or []
        for output in run.model_outputs:
            versions.extend(self._by_model.pop(output.model_id, ()))
        return tuple(versions)

    def by_run(self) -> Mapping[str, Sequence[ModelVersion]]:
        """Return the versions that name a run, by its id, as far as they were not taken."""
        return self._by_run

    def by_model(self) -> Mapping[str, Sequence[ModelVersion]]:
        """Return the versions that name a logged model but no run, by the model's id."""
        return self._by_model

    def every(self) -> Iterator[ModelVersion]:
        """Yield the versions that were not taken."""
        yield from self._alone
        for versions in (*self._by_run.values(), *self._by_model.values()):
            yield from versions

    def names(self) -> Iterable[str]:
        """Return the names of the registered models that have a version."""
        return self._newest


def logged_model_id(version: ModelVersion) -> str | None:
    """Return the id of the logged model a version was made from.

    MLflow's REST listing leaves `model_id` empty; the id then stands in the version's source.
    """
    if version.model_id:
        return version.model_id
    source = version.source or ""
    return source[len("models:/") :].partition("/")[0] if source.startswith(_MODEL_URI) else None


class VersionOrder:
    """Holds versions back until all lower ones of their registered model were yielded.

    A service that computes which version of a set is the latest compares each new one with the
    latest it has, so they have to be written in ascending order. Runs are listed in another order,
    and the run of a lower version may never come up. So where those that wait hold more than
    `HELD_ENTRIES`, the lower ones go first without their runs; they are yielded once more if their
    run comes up after all.
    """

    def __init__(
        self,
        expected: Iterable[ModelVersion],
        without_run: Callable[[ModelVersion], JoinedVersion],
    ) -> None:
        """Keep the order of `expected`; any other version goes as it comes."""
        by_name: dict[str, list[ModelVersion]] = {}
        for version in expected:
            by_name.setdefault(version.name, []).append(version)
        self._awaited: dict[str, deque[ModelVersion]] = {
            name: deque(sorted(versions, key=lambda one: number_of(one.version)))
            for name, versions in by_name.items()
        }
        self._waiting = {_key(one) for versions in by_name.values() for one in versions}
        self._without_run = without_run
        self._held: dict[_Key, JoinedVersion] = {}
        self._held_entries = 0

    def add(self, record: JoinedVersion) -> Iterator[JoinedVersion]:
        """Take a version with its run, and yield those whose turn it is."""
        key = _key(record.version)
        if key not in self._waiting:
            yield record
            return
        self._held[key] = record
        self._held_entries += _entries(record)
        yield from self._ready(record.version.name)
        while self._held_entries > HELD_ENTRIES:
            yield from self._up_to(next(iter(self._held)))

    def rest(self, names: Iterable[str]) -> Iterator[JoinedVersion]:
        """Yield all expected versions of the models `names`, and those below what is held."""
        while self._held:
            yield from self._up_to(next(iter(self._held)))
        for name in names:
            for version in self._awaited.pop(name, ()):
                yield self._take(version)

    def _ready(self, name: str) -> Iterator[JoinedVersion]:
        versions = self._awaited[name]
        while versions:
            first = versions[0]
            if _key(first) not in self._held and (first.run_id or logged_model_id(first)):
                return  # its run may still come
            yield self._take(versions.popleft())

    def _up_to(self, key: _Key) -> Iterator[JoinedVersion]:
        versions = self._awaited[key[0]]
        while key in self._held:
            yield self._take(versions.popleft())
        yield from self._ready(key[0])

    def _take(self, version: ModelVersion) -> JoinedVersion:
        key = _key(version)
        self._waiting.discard(key)
        held = self._held.pop(key, None)
        if held is None:
            return self._without_run(version)
        self._held_entries -= _entries(held)
        return held


def _key(version: ModelVersion) -> _Key:
    return version.name, version.version


def _entries(record: JoinedVersion) -> int:
    """Return about how much a version holds, in parameters, metrics and tags."""
    return _VERSION_ENTRIES + (0 if record.run is None else entries_of([record.run.run]))


class LoggedModels:
    """The logged models that runs and versions name, from one listing that is read as needed.

    MLflow lists them in the order they were made, much as it lists runs, so what runs need comes
    up as they are read, and is forgotten once they have it. A model that is gone is looked for only
    as far as its run can have made it.

    Cost: one listing of all logged models, none where nothing names any; holds those that were
    listed before their run.
    """

    def __init__(self, pages: Callable[[], Iterator[Sequence[LoggedModel]]]) -> None:
        """Keep `pages`, which begins the listing when first needed."""
        self._begin = pages
        self._pages: Iterator[Sequence[LoggedModel]] | None = None
        self._waiting: dict[str, LoggedModel] = {}
        self._made_ms = 0
        self._in_order = True

    def of(self, run: Run) -> dict[str, LoggedModel]:
        """Return the listed models that `run` made, by id, and forget them."""
        if not run.model_outputs:
            return {}
        until_ms = None if run.end_time_ms is None else run.end_time_ms + _LATE_MS
        models = (self.find(output.model_id, until_ms) for output in run.model_outputs)
        result = {model.model_id: model for model in models if model is not None}
        self.forget(run)
        return result

    def load(self, runs: Sequence[Run]) -> None:
        """Do nothing: the listing comes up with the models that runs need."""

    def load_named(self, model_ids: Sequence[str]) -> None:
        """Do nothing, likewise."""

    def find(self, model_id: str, until_ms: int | None) -> LoggedModel | None:
        """Return a model if it is listed, and made at `until_ms` or before where that is given."""
        while model_id not in self._waiting:
            too_late = self._in_order and until_ms is not None and self._made_ms > until_ms
            if too_late or not self._read_page():
                return None
        return self._waiting[model_id]

    def forget(self, run: Run) -> None:
        """Drop the models that `run` made."""
        for output in run.model_outputs:
            self._waiting.pop(output.model_id, None)

    def _read_page(self) -> bool:
        if self._pages is None:
            self._pages = self._begin()
        page = next(self._pages, None)
        for model in page or ():
            self._waiting[model.model_id] = model
            made_ms = model.created_at_ms or 0
            self._in_order &= made_ms >= self._made_ms
            self._made_ms = made_ms
        return page is not None


class RecentModels:
    """The logged models that a few runs made, asked for by these runs instead of listed whole.

    Cost: a request for each 100 runs that made models, and for each 100 models that are asked for
    by their ids; holds the models of one page of runs.
    """

    def __init__(self, pages: Callable[[ModelFilter], Iterator[Sequence[LoggedModel]]]) -> None:
        """Keep `pages`, which lists what fits a filter."""
        self._pages = pages
        self._waiting: dict[str, LoggedModel] = {}

    def load(self, runs: Sequence[Run]) -> None:
        """Ask for the models that `runs` made, and drop all others."""
        self._waiting = {}
        for some in chunks([run.run_id for run in runs if run.model_outputs], IDS_A_LISTING):
            self._keep(ModelFilter(run_ids=tuple(some)))

    def load_named(self, model_ids: Sequence[str]) -> None:
        """Ask for models by their ids, too."""
        for some in chunks(sorted(filter(SAFE_ID.fullmatch, set(model_ids))), IDS_A_LISTING):
            self._keep(ModelFilter(model_ids=tuple(some)))

    def _keep(self, only: ModelFilter) -> None:
        for page in self._pages(only):
            self._waiting.update((model.model_id, model) for model in page)

    def of(self, run: Run) -> dict[str, LoggedModel]:
        """Return the models that `run` made, by id."""
        ids = (output.model_id for output in run.model_outputs)
        return {model_id: self._waiting[model_id] for model_id in ids if model_id in self._waiting}

    def find(self, model_id: str, until_ms: int | None) -> LoggedModel | None:
        """Return a model if it was asked for and is there."""
        del until_ms
        return self._waiting.get(model_id)

    def forget(self, run: Run) -> None:
        """Do nothing: the next page drops them."""


class ModelFiles:
    """Adds to runs what their files say, where that can matter; ordinary runs cost nothing.

    One failure to read stops all further reading: what is not read stays as the catalog has it.

    Cost: two requests a file. With `model_files` a file a logged model.
    """

    def __init__(self, reader: ReadsFiles, *, model_files: bool = False) -> None:
        """Read files with `reader`, those of logged models only with `model_files`."""
        self._reader = reader
        self._model_files = model_files
        self._failure: str | None = None

    def with_files(self, record: JoinedRun) -> JoinedRun:
        """Return `record` with what its files say."""
        if record.scope.options.links is None or record.trains_nothing:
            return record
        paths = _feature_files(record)
        if not paths and not (self._model_files and record.models):
            return record
        if self._failure is None:
            try:
                return replace(record, files=self._read(record, paths))
            except _CANNOT_TELL as error:
                log.warning(
                    "files that tell features are not read, so links stay as they are: %s", error
                )
                self._failure = error.message
        return replace(record, files=FeatureFiles(unread=self._failure))

    def _read(self, record: JoinedRun, paths: list[str]) -> FeatureFiles:
        run = record.run
        place = FileLocation("run", run.run_id, run.artifact_uri)
        texts = {path: self._reader.text_of(place, path) for path in paths}
        specs = [text for path, text in texts.items() if path != FEAST_FILE and text is not None]
        columns: frozenset[str] | None = None
        if self._model_files and record.models:
            inputs = [self._of_model(model, specs) for model in record.models.values()]
            known = [names for names in inputs if names is not None]
            columns = frozenset().union(*known) if len(known) == len(inputs) else None
        return FeatureFiles(texts.get(FEAST_FILE), tuple(specs), columns)

    def _of_model(self, model: LoggedModel, specs: list[str]) -> frozenset[str] | None:
        """Return the inputs of a logged model, None if it says none; add its spec to `specs`."""
        place = FileLocation("model", model.model_id, model.artifact_uri)
        content = _yaml_object(self._reader.text_of(place, _MODEL_FILE))
        spec = self._reader.text_of(place, _SPEC_FILE) if _looks_up_features(content) else None
        if spec is not None:
            specs.append(spec)
        return input_names(content) or None


def _feature_files(record: JoinedRun) -> list[str]:
    """Return the paths of the files of a run that may tell its features."""
    run, paths = record.run, []
    feast = feast_tags(run.tags, run.params)
    if feast is not None and (feast.is_cut or (feast.retrieval == "online" and record.models)):
        paths.append(FEAST_FILE)
    for model in logged_history(run.tags):
        path = model.get("artifact_path")
        if isinstance(path, str) and path and _looks_up_features(model):
            paths.append(f"{path}/{_SPEC_FILE}")
    return paths


def _looks_up_features(model: Mapping[str, Any]) -> bool:
    """Return whether a model was logged by Databricks' feature engineering client."""
    flavors = model.get("flavors")
    pyfunc = flavors.get("python_function") if isinstance(flavors, Mapping) else None
    loader = pyfunc.get("loader_module") if isinstance(pyfunc, Mapping) else None
    return isinstance(loader, str) and loader.startswith("databricks.") and "feature" in loader


def _yaml_object(text: str | None) -> Mapping[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(text or "")
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    return content if isinstance(content, Mapping) else {}
