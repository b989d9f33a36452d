"""Evidence in MLflow's records of a model's features, for the rules that link the two."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mlcat_ingest.links.index import IndexedTable
from mlcat_ingest.links.rules import (
    FEAST_SERVICE,
    Evidence,
    FeastTags,
    UnlinkedModel,
    UsedDataset,
    feast_tags,
)
from mlcat_ingest.metadata.aspects import ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.reserved import FEATURES_TAG
from mlcat_ingest.sources.mlflow.mapping.datasets import dataset_name, is_evaluation, json_object
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedLoggedModel,
    JoinedRun,
    JoinedVersion,
    WorkspaceScope,
)
from mlcat_ingest.sources.mlflow.values.records import column_names
from mlcat_ingest.sources.mlflow.values.signatures import made_models, signature_tables

_NOTHING: Final = Evidence()


def with_evidence(model: Entity, evidence: Evidence | None, scope: WorkspaceScope) -> Entity:
    """Return a model whose features have still to be found, if there is `evidence`.

    Empty evidence gives the model no features; None leaves its features as they are.
    """
    options = scope.options.links
    if options is None or evidence is None:
        return model
    rest = model.only_if_absent, model.notes, model.adds_only
    if evidence is not _NOTHING and evidence != _NOTHING:
        return UnlinkedModel(model.urn, model.aspects, *rest, evidence=evidence, options=options)
    properties = {**model.aspects[ML_MODEL_PROPERTIES], "mlFeatures": []}
    return Entity(model.urn, {**model.aspects, ML_MODEL_PROPERTIES: properties}, *rest)


def run_evidence(record: JoinedRun) -> Evidence | None:
    """Return the evidence of a run, with declarations for the models and versions made from it.

    None if files with further evidence could not be read.
    """
    declared = _declaration([one.tags for one in record.versions]) or _run_declaration(record)
    return _run_evidence(record, _tables(record), declared)


def version_evidence(record: JoinedVersion) -> Evidence | None:
    """Return the evidence of a version, else of its origin, its logged model, and its run.

    None if they have none and no run is known.
    """
    tags, run, model = record.version.tags, record.run, record.model
    of_versions = (_declaration([version.tags]) for version in record.version.origins())
    declared = next(filter(None, of_versions), None)
    declared = declared or (None if model is None else _declaration([model.tags]))
    if run is not None:
        of_run = _run_declaration(run) if model is None else _declaration([run.run.tags])
        return _run_evidence(run, _tables(record), declared or of_run)
    service, tables = tags.get(FEAST_SERVICE), _tables(record)
    if declared is None and not service and not tables:
        return None
    feast = FeastTags(service=service) if service else None
    return Evidence(declared=declared, feast=feast, tables=tables)


def external_evidence(record: JoinedLoggedModel) -> Evidence:
    """Return the declaration for an external model, which has no other evidence of features."""
    return Evidence(declared=_declaration([record.model.tags]))


def _run_declaration(record: JoinedRun) -> str | None:
    of_models = _declaration([model.tags for model in record.models.values()])
    return of_models or _declaration([record.run.tags])


def _declaration(tags: Iterable[Mapping[str, str]]) -> str | None:
    """Return what these tags declare, all of it; None where none declares anything."""
    texts = [text.strip() for mapping in tags if (text := mapping.get(FEATURES_TAG))]
    return ",".join(filter(None, dict.fromkeys(texts))) or None if texts else None


def _tables(record: JoinedRun | JoinedVersion) -> tuple[IndexedTable, ...]:
    return tuple(made.table for made in signature_tables(record))


def _run_evidence(
    record: JoinedRun, tables: tuple[IndexedTable, ...], declared: str | None
) -> Evidence | None:
    """Return what is found with what is declared, which is enough where the rest is not known."""
    run, options, files = record.run, record.scope.options.links, record.files
    alone = None if declared is None else Evidence(declared=declared)
    if options is None or record.trains_nothing:
        return alone or _NOTHING
    if files.unread:
        return alone
    feast = feast_tags(run.tags, run.params)
    guesses = options.dataset_match or options.signature_names
    if feast is None and not guesses and not files.feature_specs and not tables:
        return alone or _NOTHING
    return Evidence(
        declared=declared,
        feature_specs=files.feature_specs,
        feast=feast,
        features_file=files.features_file,
        datasets=tuple(_used_datasets(record)) if options.dataset_match else (),
        columns=_inputs(record),
        tables=tables,
    )


def _used_datasets(record: JoinedRun) -> Iterator[UsedDataset]:
    """Yield the training data of a run that has a place and columns."""
    scope, measured_on = record.scope, record.measured_on
    evaluates = record.trains_with_no_data
    for item in record.run.datasets:
        judges = is_evaluation(item, evaluates=evaluates, measured_on=measured_on)
        place = item.source_type, item.source, scope.datasets, scope.naming.env
        urn = None if judges else dataset_name(*place)[1]
        columns = column_names(json_object(item.schema).get("mlflow_colspec"))
        if urn is not None and columns:
            yield UsedDataset(urn, columns)


def _inputs(record: JoinedRun) -> frozenset[str] | None:
    """Return the inputs of all models that a run made, None where they are not known of each."""
    inputs = [
        model.document.input_names if model.document else None for model in made_models(record)
    ]
    named = [names for names in inputs if names]
    return frozenset().union(*named) if named and len(named) == len(inputs) else None
