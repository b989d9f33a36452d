"""Joins logged models to the runs that made them, and finds external ones.

A model is external if no run names it as its output: an agent, an application. Its metrics are
logged by runs; MLflow starts one where a program has none, with a random name and nothing else.

Files of runs and logged models are evidence of features, the document `MLmodel`, and model cards.
"""

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Final, NamedTuple

from mlcat_ingest.core.paging import chunks
from mlcat_ingest.errors import (
    AuthenticationError,
    NotAuthorizedError,
    ProtocolMismatchError,
    SourceUnavailableError,
)
from mlcat_ingest.links.rules import FEAST_FILE, feast_tags
from mlcat_ingest.sources.mlflow.read.listing import id_pieces
from mlcat_ingest.sources.mlflow.read.reader import (
    ALL_MODELS,
    IDS_A_LISTING,
    FileLocation,
    ModelFilter,
    ReadsFiles,
    local_text,
)
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedRun,
    JoinedVersion,
    RunFiles,
)
from mlcat_ingest.sources.mlflow.values.records import (
    HISTORY_TAG,
    NOTE_TAG,
    LoggedModel,
    MeasuredModel,
    Run,
    logged_history,
    model_document,
)
from mlcat_ingest.sources.mlflow.values.signatures import made_models
from mlcat_ingest.sources.mlflow.values.uris import folder_of

log = logging.getLogger(__name__)
_SPEC_FILE: Final = "data/feature_store/feature_spec.yaml"
_MODEL_FILE: Final = "MLmodel"
_CARD_FILES: Final = ("README.md", "model_card.md")
_MODEL_ID: Final = "model_id"
_FEATURE_CLIENT: Final = "databricks."
"""The beginning of the module that loads a model of Databricks' feature engineering client."""
_CANNOT_TELL: Final = (
    SourceUnavailableError,
    AuthenticationError,
    NotAuthorizedError,
    ProtocolMismatchError,
)


class ModelFiles:
    """Adds the content of files to runs and versions; runs without models cost nothing.

    After one failure no more files are read, and their metadata in the catalog stays unchanged.

    Cost: two requests a file. The file of a logged model is read only with `model_files`, or where
    it is in a folder of this machine, which takes no request; cards only with `model_cards`.
    """

    def __init__(
        self, reader: ReadsFiles, *, model_files: bool = False, model_cards: bool = False
    ) -> None:
        """Read files with `reader`, those of logged models as the two options say."""
        self._reader = reader
        self._model_files = model_files
        self._model_cards = model_cards
        self.failure: str | None = None
        """The reason why files are not read any more, None while they are."""
        self._has_skipped = model_files

    def with_files(self, record: JoinedRun) -> JoinedRun:
        """Return a run with the content of its files."""
        links = record.scope.options.links
        paths = [] if links is None or record.trains_nothing else _feature_files(record)
        models = self._readable(record.models.values())
        if paths or models or self._model_cards:
            record = replace(record, files=self._files(record, paths, models))
        for model in () if record.listed_only else record.models.values():
            if not self._has_skipped and model.artifact_uri and not _is_local(model):
                self._has_skipped = True
                record = replace(record, files=replace(record.files, skipped=model.model_id))
        return record

    def with_document(self, record: JoinedVersion) -> JoinedVersion:
        """Return a version with the files of its logged model, those of its run if it is read."""
        if record.run is not None:
            record = replace(record, files=record.run.files)
        made = () if record.model is None else (record.model,)
        models = [one for one in self._readable(made) if one.model_id not in record.files.documents]
        has_card = record.run is not None and all(one.model_id in record.run.models for one in made)
        if models or (self._model_cards and not has_card):
            record = replace(record, files=self._files(record, [], models))
        return record

    def _readable(self, models: Iterable[LoggedModel]) -> Sequence[LoggedModel]:
        return [model for model in models if self._model_files or _is_local(model)]

    def _files(
        self,
        record: JoinedRun | JoinedVersion,
        paths: Sequence[str],
        models: Sequence[LoggedModel],
    ) -> RunFiles:
        if self.failure is None:
            try:
                return self._read(record, paths, models)
            except _CANNOT_TELL as error:
                log.warning(
                    "cannot read files of models; their metadata remains unchanged: %s", error
                )
                self.failure = error.message
        return RunFiles(unread=self.failure)

    def _read(
        self,
        record: JoinedRun | JoinedVersion,
        paths: Sequence[str],
        models: Sequence[LoggedModel],
    ) -> RunFiles:
        texts: dict[str, str | None] = {}
        if isinstance(record, JoinedRun):
            place = FileLocation("run", record.run_id, record.run.artifact_uri)
            texts = {path: self._reader.text_of(place, path) for path in paths}
        specs = [text for path, text in texts.items() if path != FEAST_FILE and text is not None]
        documents = {}
        for model in models:
            content = _yaml_object(self._text_of(model, _MODEL_FILE))
            if content.get(_MODEL_ID) not in {None, model.model_id}:
                continue  # a folder of that name is on this machine, too
            documents[model.model_id] = model_document(content)
            if record.scope.options.links is not None and _looks_up_features(content):
                spec = self._text_of(model, _SPEC_FILE)
                specs += [] if spec is None else [spec]
        cards = {}
        for uri, location, folder in _model_folders(record) if self._model_cards else ():
            found = (self._reader.text_of(location, folder + name) for name in _CARD_FILES)
            if card := next(filter(None, found), None):
                cards[uri] = card
        return RunFiles(
            texts.get(FEAST_FILE),
            tuple(specs),
            documents,
            cards if self._model_cards else None,
        )

    def _text_of(self, model: LoggedModel, path: str) -> str | None:
        place = _location(model)
        if self._model_files:
            return self._reader.text_of(place, path)
        try:
            return local_text(place, path)
        except SourceUnavailableError:
            return None  # the recipe does not ask for it


def _model_folders(
    record: JoinedRun | JoinedVersion,
) -> Iterator[tuple[str, FileLocation, str]]:
    """Yield the address of each model of a record, and where its files are: place and folder."""
    of_version = () if isinstance(record, JoinedRun) or record.model is None else (record.model,)
    models = record.models.values() if isinstance(record, JoinedRun) else of_version
    for model in models:
        yield f"models:/{model.model_id}", _location(model), ""
    if isinstance(record, JoinedRun):
        location = FileLocation("run", record.run_id, record.run.artifact_uri)
        for made in made_models(record):
            if made.uri.startswith("runs:"):
                yield made.uri, location, f"{made.name}/"


def _location(model: LoggedModel) -> FileLocation:
    return FileLocation("model", model.model_id, model.artifact_uri)


def _is_local(model: LoggedModel) -> bool:
    return bool(model.artifact_uri) and folder_of(model.artifact_uri or "") is not None


def _feature_files(record: JoinedRun) -> list[str]:
    """Return the paths of the files of a run that may tell its features."""
    run, paths = record.run, []
    feast = feast_tags(run.tags, run.params)
    if feast is not None and (feast.is_cut or (feast.retrieval == "online" and record.models)):
        paths.append(FEAST_FILE)
    # Most histories need not be parsed: MLflow's JSON has these letters as they are.
    is_named = _FEATURE_CLIENT in run.tags.get(HISTORY_TAG, "")
    for model in logged_history(run.tags) if is_named else ():
        path = model.get("artifact_path")
        if isinstance(path, str) and path and _looks_up_features(model):
            paths.append(f"{path}/{_SPEC_FILE}")
    return paths


def _looks_up_features(model: Mapping[str, Any]) -> bool:
    """Return whether a model was logged by Databricks' feature engineering client."""
    flavors = model.get("flavors")
    pyfunc = flavors.get("python_function") if isinstance(flavors, Mapping) else None
    loader = pyfunc.get("loader_module") if isinstance(pyfunc, Mapping) else None
    return isinstance(loader, str) and loader.startswith(_FEATURE_CLIENT) and "feature" in loader


def _yaml_object(text: str | None) -> Mapping[str, Any]:
    if not text:
        return {}
    import yaml

    # The parser of libyaml, where it is installed, takes a tenth of the time: 0.3 ms a file.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        content = yaml.load(text, loader)  # noqa: S506 - both are safe loaders
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    return content if isinstance(content, Mapping) else {}


# A model can be logged to a run that has ended; a day later it is not looked for any more.
_LATE_MS: Final = 86_400_000
_CLOCKS_DIFFER_MS: Final = 3_600_000
"""Runs start by the clocks of those who log them, and models are made by that of the server."""

HELD_MODELS: Final = 5_000
"""Logged models that wait for their runs while another is looked for in the listing."""

EXTERNAL_MODELS: Final = 500
"""External models that a pass over changes reads again, those that were made last."""

ListModels = Callable[[ModelFilter], Iterator[Sequence[LoggedModel]]]


class _Measurements(NamedTuple):
    model: MeasuredModel
    experiment_id: str
    keys: frozenset[str]


def _holds_only_metrics(run: Run) -> bool:
    """Return whether a run has metrics, and nothing else that its user gave it but a name.

    The datasets of metrics are those of the run, too.
    """
    if run.params or run.model_outputs or not run.metrics or NOTE_TAG in run.tags:
        return False
    return all(tag.startswith("mlflow.") for tag in run.tags)


# Metrics have the time of who logged them, models that of the server. The clocks may differ by as
# much as a model took to be saved, before more can be logged for it; a later update proves nothing.
_SAVING_MS: Final = 1_000


def of_one_run(models: Iterable[LoggedModel]) -> dict[str, LoggedModel]:
    """Return the models that one run made, by id, each without copies of metrics of earlier ones.

    A new model gets copies of the metrics that its run has at that step, those of the models before
    it among them. What is logged later, for several models at once, is no copy.
    Source: `Model.log` and `log_metrics` of MLflow 3.17.
    """
    seen: set[tuple[Any, ...]] = set()
    result = {model.model_id: model for model in models}
    for model in sorted(result.values(), key=lambda model: model.created_at_ms or 0):
        facts = [(m.key, repr(m.value), m.timestamp_ms, m.step, m.run_id) for m in model.metrics]
        made_ms = model.created_at_ms or inf
        until_ms = min(made_ms + _SAVING_MS, model.last_updated_at_ms or made_ms)
        copied = {fact for fact in seen.intersection(facts) if (fact[2] or 0) <= until_ms}
        own = (m for m, fact in zip(model.metrics, facts, strict=True) if fact not in copied)
        names = sorted({fact[0] for fact in copied})
        result[model.model_id] = replace(model, metrics=tuple(own), copied=tuple(names))
        seen.update(facts)
    return result


class RecentModels:
    """The logged models that a few runs made, asked for by these runs instead of listed whole.

    External models of all listings are held until they are taken, and whose metrics a run logged
    until that run comes.

    Cost: a request for each 100 runs that made models, for each 100 models that are asked for by
    their ids, and one where a run may hold the metrics of an external model; holds the models of
    one page of runs.
    """

    def __init__(self, pages: ListModels, *, keeps_external: bool) -> None:
        """Keep `pages`, which lists what fits a filter; maybe no external models are taken."""
        self._list = pages
        self._waiting: dict[str, LoggedModel] = {}
        self._keeps_external = keeps_external
        self._external: list[LoggedModel] = []
        self._measurements: dict[str | None, list[_Measurements]] = {}
        self._awaits_runs = True
        self._knows_newest = False

    def add_external(self, models: Iterable[LoggedModel]) -> None:
        """Add those of `models` that are external."""
        for model in models:
            if model.is_external and self._awaits_runs:
                name = MeasuredModel(model.model_id, model.name or model.model_id)
                keys = frozenset(metric.key for metric in model.metrics)
                for run_id in {metric.run_id for metric in model.metrics}:
                    measurements = self._measurements.setdefault(run_id, [])
                    measurements.append(_Measurements(name, model.experiment_id, keys))
            if model.is_external and self._keeps_external:
                self._external.append(model)

    def take_external(self) -> list[LoggedModel]:
        """Return the external models that were added since the last call."""
        taken, self._external = self._external, []
        return taken

    def newest_external(self, count: int) -> Iterator[Sequence[LoggedModel]]:
        """Yield the external models that were made last, `count` at most."""
        self._knows_newest = True
        yield from self._list(ModelFilter(newest_external=count))

    def measured_by(self, run: Run) -> tuple[MeasuredModel, ...]:
        """Return the external models of which `run` holds the metrics, and nothing else."""
        holds_only_metrics = _holds_only_metrics(run)
        if holds_only_metrics:
            self._list_measured(run)
        measurements = self._measurements.pop(run.run_id, ())
        if not measurements or not holds_only_metrics:
            return ()
        here = [one for one in measurements if one.experiment_id == run.experiment_id]
        keys = frozenset().union(*(one.keys for one in here))
        if not here or any(metric.key not in keys for metric in run.metrics):
            return ()
        return tuple(sorted({one.model for one in here}))

    def _list_measured(self, run: Run) -> None:
        """List the models of which `run` may hold the metrics."""
        del run
        if not self._knows_newest:
            for page in self.newest_external(EXTERNAL_MODELS):
                self.add_external(page)

    def load(self, runs: Sequence[Run]) -> None:
        """Ask for the models that `runs` made, and drop all others."""
        self._waiting = {}
        for piece in chunks([run.run_id for run in runs if run.model_outputs], IDS_A_LISTING):
            self._keep(ModelFilter(run_ids=tuple(piece)))
        # Those that another run made before, or that are gone.
        named = (output.model_id for run in runs for output in run.model_outputs)
        self.load_named(model_id for model_id in named if model_id not in self._waiting)

    def load_named(self, model_ids: Iterable[str]) -> None:
        """Ask for models by their ids, too."""
        for piece in id_pieces(set(model_ids)):
            self._keep(ModelFilter(model_ids=piece))

    def _keep(self, only: ModelFilter) -> None:
        for page in self._list(only):
            self._waiting.update((model.model_id, model) for model in page)

    def of(self, run: Run) -> dict[str, LoggedModel]:
        """Return the models that `run`, of the page that was loaded last, made, by id."""
        models = [self.find(output.model_id) for output in run.model_outputs]
        return of_one_run(model for model in models if model and not model.is_external)

    def find(self, model_id: str) -> LoggedModel | None:
        """Return a model if it was listed or asked for, and is there."""
        return self._waiting.get(model_id)


class LoggedModels(RecentModels):
    """The logged models of a workspace, from one listing that is read as runs need it.

    MLflow lists them in the order they were made, much as it lists runs, so what runs need comes
    up as they are read, and goes with the next page. A model is looked for there only as far as its
    run is likely to have made it, and then asked for by its id: it was logged long after the run's
    end, came up for a page before, or is gone; or too many others wait for their runs.

    Cost: one listing of all logged models, and a request for each 100 ids a page of runs asks for;
    holds those that were listed before their run.
    """

    def __init__(
        self,
        pages: ListModels,
        is_wanted: Callable[[LoggedModel], bool],
        *,
        keeps_external: bool,
    ) -> None:
        """Keep `pages`, which begins the listing when first needed.

        Only models that are wanted are held: those that a run may come for, or a version names.
        """
        super().__init__(pages, keeps_external=keeps_external)
        self._pages: Iterator[Sequence[LoggedModel]] | None = None
        self._is_wanted = is_wanted
        self._made_ms = 0
        self._in_order = True
        self._taken: set[str] = set()

    def _list_measured(self, run: Run) -> None:
        """Read on to the last metric of `run`: the models of its metrics were made before."""
        times_ms = (run.start_time_ms, *(metric.timestamp_ms for metric in run.metrics))
        until_ms = max(filter(None, times_ms), default=0) + _CLOCKS_DIFFER_MS
        while self._in_order and self._made_ms <= until_ms and self._has_room():
            if not self._read_page():
                return

    def load(self, runs: Sequence[Run]) -> None:
        """Read on to the models that `runs` made, and ask by id for those that do not come up.

        Those that runs had before are dropped now: two runs of a page can name one model.
        """
        for model_id in self._taken:
            self._waiting.pop(model_id, None)
        named = [(run, output.model_id) for run in runs for output in run.model_outputs]
        self._taken = {model_id for _, model_id in named}
        super().load_named(model_id for run, model_id in named if not self._lists(run, model_id))

    def load_named(self, model_ids: Iterable[str]) -> None:
        """Ask for models by their ids that are not held: another run made them, or they are gone.

        They are dropped as those that runs of the page made.
        """
        absent = set(model_ids) - self._waiting.keys() - self._taken
        self._taken |= absent
        super().load_named(absent)

    def _lists(self, run: Run, model_id: str) -> bool:
        """Read on as far as `run` is likely to have made a model, and return whether it is held.

        A run that never ended is no reason to hold all that others made since.
        """
        until_ms = (run.ended_at_ms or run.start_time_ms or 0) + _LATE_MS
        while model_id not in self._waiting:
            is_late = self._in_order and self._made_ms > until_ms
            if is_late or not self._has_room() or not self._read_page():
                return False
        return True

    def _has_room(self) -> bool:
        return len(self._waiting) - len(self._taken) < HELD_MODELS

    def read_rest(self, named: Container[str]) -> Iterator[None]:
        """Read the rest of the listing, page by page, and hold only models that are `named`.

        No further run comes, so all others can be forgotten.
        """
        self._awaits_runs = False
        self._measurements.clear()
        while True:
            self._waiting = {key: model for key, model in self._waiting.items() if key in named}
            if not self._read_page():
                return
            yield

    def _read_page(self) -> bool:
        if self._pages is None:
            self._pages = self._list(ALL_MODELS)
        page = next(self._pages, None)
        for model in page or ():
            if self._is_wanted(model):
                self._waiting[model.model_id] = model
            made_ms = model.created_at_ms or 0
            self._in_order &= made_ms >= self._made_ms
            self._made_ms = made_ms
        self.add_external(page or ())
        return page is not None
