"""The models that runs made and versions were made from, and the feature tables of their inputs."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.links.index import IndexedTable
from mlcat_ingest.links.rules import feast_tags
from mlcat_ingest.metadata.reserved import FEATURES_TAG
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedRun,
    JoinedSignature,
    JoinedVersion,
    RunFiles,
    WorkspaceScope,
)
from mlcat_ingest.sources.mlflow.values.records import (
    NO_OBJECTS,
    Column,
    LoggedModel,
    ModelDocument,
    ModelVersion,
    column_name,
    logged_history,
    model_document,
)

_DIGEST_CHARS = 8


class MadeModel(NamedTuple):
    """A model that a run made; its `document` and `card` are None where they could not be read.

    `places` are the sources that a version of a registered model made from it may name.
    """

    uri: str
    name: str
    document: ModelDocument | None
    places: frozenset[str]
    card: str | None = None

    def is_of(self, version: ModelVersion) -> bool:
        """Return whether a version of a registered model was made from it."""
        source = (version.source or "").rstrip("/")
        return source in self.places or f"models:/{version.model_id}" == self.uri


def made_models(record: JoinedRun) -> Sequence[MadeModel]:
    """Return the models that a run made: MLflow 3's that are listed, then those of its history."""
    run, cards = record.run, record.files.cards or {}
    history = {
        path: entry
        for entry in logged_history(run.tags)
        if isinstance(path := entry.get("artifact_path"), str) and path
    }
    listed = (record.models.get(output.model_id) for output in run.model_outputs)
    logged = (_logged(model, record.files) for model in listed if model is not None)
    models = {made.uri: made for made in logged}
    for path, entry in history.items():
        if f"models:/{entry.get('model_uuid')}" not in models:
            uri = f"runs:/{run.run_id}/{path}"
            places = frozenset({uri, f"{(run.artifact_uri or '').rstrip('/')}/{path}"})
            models[uri] = MadeModel(uri, path, model_document(entry), places, cards.get(uri))
    return tuple(models.values())


def model_behind(record: JoinedVersion) -> MadeModel | None:
    """Return the model that a version was made from, None where it is not known."""
    of_run = () if record.run is None else made_models(record.run)
    model = next((made for made in of_run if made.is_of(record.version)), None)
    if model is None and record.model is not None:
        return _logged(record.model, record.files)
    return model


def _logged(model: LoggedModel, files: RunFiles) -> MadeModel:
    uri, document = f"models:/{model.model_id}", files.documents.get(model.model_id)
    card = (files.cards or {}).get(uri)
    return MadeModel(uri, model.name or model.model_id, document, frozenset({uri}), card)


def signature_tables(record: JoinedRun | JoinedVersion) -> Sequence[JoinedSignature]:
    """Return the tables whose features are the inputs of models, each once.

    None where the recipe asks for none, or something better names the features.
    """
    options = record.scope.options.links
    if options is None or not options.from_signature:
        return ()
    run = record if isinstance(record, JoinedRun) else record.run
    if _names_features(record) or (run is not None and (run.is_removed or run.trains_nothing)):
        return ()
    tables = _of_version(record) if isinstance(record, JoinedVersion) else _of_run(record)
    return tuple({signature.table: signature for signature in tables}.values())


def _names_features(record: JoinedRun | JoinedVersion) -> bool:
    """Return whether tags or files name the features of a model."""
    if isinstance(record, JoinedVersion):
        tagged = [record.version.tags, {} if record.model is None else record.model.tags]
        of_run = record.run is not None and _names_features(record.run)
        return of_run or any(map(_declares, tagged))
    run, files = record.run, record.files
    feast = feast_tags(run.tags, run.params)
    of_versions = [version.tags for version in record.versions]
    of_models = [model.tags for model in record.models.values()]
    return (
        bool(files.feature_specs)
        or (feast is not None and feast.is_training)
        or any(map(_declares, (run.tags, *of_versions, *of_models)))
    )


def _declares(tags: Mapping[str, str]) -> bool:
    return bool(tags.get(FEATURES_TAG, "").strip())


def _of_run(record: JoinedRun) -> Iterator[JoinedSignature]:
    for made in made_models(record):
        names = sorted(version.name for version in record.versions if made.is_of(version))
        if names:
            yield from _tables(record.scope, names[0], made, registered=True)
        else:
            named = record.experiment.name if record.experiment is not None else ""
            owner = f"{named or record.run.experiment_id}/{made.name}"
            yield from _tables(record.scope, owner, made, registered=False)


def _of_version(record: JoinedVersion) -> Iterator[JoinedSignature]:
    made = model_behind(record)
    if made is not None:
        yield from _tables(record.scope, record.version.name, made, registered=True)


def _tables(
    scope: WorkspaceScope, owner: str, made: MadeModel, *, registered: bool
) -> Iterator[JoinedSignature]:
    """Yield the table of a model's inputs, if any of them has a name.

    Its name has a digest: models of one name may have several signatures, and no two tables are
    one. So what a table holds follows from its name alone, whichever model is read first.
    """
    document = made.document
    inputs = NO_OBJECTS if document is None else document.signature.get("inputs", NO_OBJECTS)
    columns: dict[str, Column] = {}
    for column in inputs:
        if column_name(column):
            columns.setdefault(column_name(column), column)
    if not columns:
        return
    content = json.dumps([registered, owner, inputs], sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_CHARS]
    view = f"signature:{owner}:{digest}"
    try:
        name = scope.naming.feature_table(None, view)
    except InvalidUrnError:
        return
    kept = frozenset(list(columns)[: scope.limits.columns])
    table = IndexedTable(None, view, scope.naming, name, kept)
    yield JoinedSignature(scope, table, owner, columns)
