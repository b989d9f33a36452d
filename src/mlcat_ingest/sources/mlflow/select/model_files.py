"""Which files of a run say something about its features, and what is in them."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    SourceUnavailableError,
)
from mlcat_ingest.links.evidence import FEAST_FILE, feast_tags
from mlcat_ingest.sources.mlflow.read.file_access import FileLocation, ReadsFiles
from mlcat_ingest.sources.mlflow.values.joined import FeatureFiles, JoinedRun
from mlcat_ingest.sources.mlflow.values.mlmodel import input_names, logged_history
from mlcat_ingest.sources.mlflow.values.records import LoggedModel

log = logging.getLogger(__name__)

_SPEC_FILE: Final = "data/feature_store/feature_spec.yaml"
_MODEL_FILE: Final = "MLmodel"
_CANNOT_TELL: Final = (
    SourceUnavailableError,
    AuthenticationError,
    NotAuthorizedError,
    ProtocolMismatchError,
)


class ModelFiles:
    """Adds to runs what their files say, where that can matter; ordinary runs cost nothing.

    One failure to read stops all further reading: what is not read stays as the catalog has it.

    Cost: two requests a file. With `model_files` a file a logged model.
    """

    def __init__(self, reader: ReadsFiles, *, model_files: bool = False) -> None:
        """Read with `reader`."""
        self._reader = reader
        self._model_files = model_files
        self._failure: str | None = None

    def with_files(self, record: JoinedRun) -> JoinedRun:
        """Return `record` with what its files say."""
        if record.scope.options.links is None or record.trains_nothing:
            return record
        wanted = self._wanted(record)
        if not wanted and not (self._model_files and record.models):
            return record
        if self._failure is not None:
            return replace(record, files=FeatureFiles(unread=self._failure))
        try:
            return replace(record, files=self._read(record, wanted))
        except _CANNOT_TELL as error:
            return replace(record, files=FeatureFiles(unread=self._failed(error)))

    def _failed(self, error: MlcatError) -> str:
        log.warning("files that tell features are not read, so links stay as they are: %s", error)
        self._failure = error.message
        return error.message

    def _wanted(self, record: JoinedRun) -> list[str]:
        """Return the paths of the files of a run that matter."""
        run, wanted = record.run, []
        feast = feast_tags(run.tags, run.params)
        if feast is not None and (feast.is_cut or (feast.retrieval == "online" and record.models)):
            wanted.append(FEAST_FILE)
        for model in logged_history(run.tags):
            path = model.get("artifact_path")
            if isinstance(path, str) and path and _looks_up_features(model):
                wanted.append(f"{path}/{_SPEC_FILE}")
        return wanted

    def _read(self, record: JoinedRun, wanted: list[str]) -> FeatureFiles:
        run = record.run
        place = FileLocation("run", run.run_id, run.artifact_uri)
        texts = {path: self._reader.text_of(place, path) for path in wanted}
        specs = [text for path, text in texts.items() if path != FEAST_FILE and text is not None]
        columns: frozenset[str] | None = None
        if self._model_files and record.models:
            columns = frozenset()
            for model in record.models.values():
                names = self._of_model(model, specs)
                columns = None if columns is None or names is None else columns | names
        return FeatureFiles(texts.get(FEAST_FILE), tuple(specs), columns)

    def _of_model(self, model: LoggedModel, specs: list[str]) -> frozenset[str] | None:
        """Return the inputs of a logged model, None if it says none; add its spec to `specs`."""
        place = FileLocation("model", model.model_id, model.artifact_uri)
        content = _mapping(self._reader.text_of(place, _MODEL_FILE))
        if _looks_up_features(content):
            spec = self._reader.text_of(place, _SPEC_FILE)
            specs.extend([spec] if spec is not None else [])
        return input_names(content) or None


def _looks_up_features(model: Mapping[str, Any]) -> bool:
    """Return whether a model was logged by Databricks' feature engineering client."""
    flavors = model.get("flavors")
    pyfunc = flavors.get("python_function") if isinstance(flavors, Mapping) else None
    loader = pyfunc.get("loader_module") if isinstance(pyfunc, Mapping) else None
    return isinstance(loader, str) and loader.startswith("databricks.") and "feature" in loader


def _mapping(text: str | None) -> Mapping[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(text or "")
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    return content if isinstance(content, Mapping) else {}
