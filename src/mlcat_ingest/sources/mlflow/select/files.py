"""Reads files of runs and logged models: evidence of features, and the document `MLmodel`."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mlcat_ingest.errors import (
    AuthenticationError,
    NotAuthorizedError,
    ProtocolMismatchError,
    SourceUnavailableError,
)
from mlcat_ingest.links.evidence import FEAST_FILE, feast_tags
from mlcat_ingest.sources.mlflow.read.reader import FileLocation, ReadsFiles, local_text
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedRecord,
    JoinedRun,
    JoinedSignature,
    JoinedVersion,
    RunFiles,
)
from mlcat_ingest.sources.mlflow.values.records import LoggedModel, logged_history, model_document
from mlcat_ingest.sources.mlflow.values.signatures import signature_tables
from mlcat_ingest.sources.mlflow.values.uris import folder_of

log = logging.getLogger(__name__)
_SPEC_FILE: Final = "data/feature_store/feature_spec.yaml"
_MODEL_FILE: Final = "MLmodel"
_MODEL_ID: Final = "model_id"
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
    it is in a folder of this machine, which takes no request.
    """

    def __init__(self, reader: ReadsFiles, *, model_files: bool = False) -> None:
        """Read files with `reader`, those of logged models only with `model_files`."""
        self._reader = reader
        self._model_files = model_files
        self.failure: str | None = None
        """The reason why files are not read any more, None while they are."""
        self._has_skipped = model_files

    def with_files(self, record: JoinedRun) -> JoinedRun:
        """Return a run with the content of its files."""
        links = record.scope.options.links
        paths = [] if links is None or record.trains_nothing else _feature_files(record)
        models = self._readable(record.models.values())
        if paths or models:
            record = replace(record, files=self._files(record, paths, models))
        if self._has_skipped or record.listed_only:
            return record
        skipped = (
            model for model in record.models.values() if model.artifact_uri and not _is_local(model)
        )
        first = next(skipped, None)
        self._has_skipped = first is not None
        if first is None:
            return record
        return replace(record, files=replace(record.files, skipped=first.model_id))

    def with_document(self, record: JoinedVersion) -> JoinedVersion:
        """Return a version with the document of its logged model, that of its run if it is read."""
        if record.run is not None:
            record = replace(record, files=record.run.files)
        if record.model is None or record.model.model_id in record.files.documents:
            return record
        models = self._readable([record.model])
        return replace(record, files=self._files(record, [], models)) if models else record

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
        return RunFiles(texts.get(FEAST_FILE), tuple(specs), documents)

    def _text_of(self, model: LoggedModel, path: str) -> str | None:
        place = FileLocation("model", model.model_id, model.artifact_uri)
        if self._model_files:
            return self._reader.text_of(place, path)
        try:
            return local_text(place, path)
        except SourceUnavailableError:
            return None  # the recipe does not ask for it


def _is_local(model: LoggedModel) -> bool:
    return bool(model.artifact_uri) and folder_of(model.artifact_uri or "") is not None


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


def with_signature_tables(
    pages: Iterable[Sequence[JoinedRecord]],
) -> Iterator[Sequence[JoinedRecord]]:
    """Yield the pages, each feature table of a signature before the first record that links to it.

    Cost: holds the names of the tables.
    """
    names: set[str] = set()
    for page in pages:
        records: list[JoinedRecord] = []
        for record in page:
            signatures: Sequence[JoinedSignature] = ()
            if isinstance(record, JoinedRun | JoinedVersion):
                signatures = signature_tables(record)
            for signature in signatures:
                if signature.table.table not in names:
                    names.add(signature.table.table)
                    is_listed = isinstance(record, JoinedRun) and record.listed_only
                    records.append(replace(signature, listed_only=is_listed))
            records.append(record)
        yield records
