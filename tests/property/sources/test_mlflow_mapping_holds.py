"""Whatever MLflow holds, the mapping gives entities that can be sent, or skips the record."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.errors import SkippableError
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.urn import decoded_parts, entity_type_of
from mlcat_ingest.metadata.validate import validate_aspect
from mlcat_ingest.sources.mlflow.mapping import map_record
from mlcat_ingest.sources.mlflow.mapping.properties import OWN_KEYS
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedExperiment,
    JoinedRecord,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedVersion,
)
from mlcat_ingest.sources.mlflow.values.records import (
    DatasetInput,
    Experiment,
    LoggedModel,
    Metric,
    ModelOutput,
    ModelVersion,
    RegisteredModel,
    Run,
)
from support.merging import written
from support.mlflow_records import a_scope

# Any text that Python can hold, half surrogate pairs included, and names that mean something to us.
TEXT = st.text(st.characters(), max_size=30) | st.text(max_size=400)
MEANT = [
    *sorted(OWN_KEYS),
    "mlcat.source",
    "source.mlcat.source",
    "mlflow.user",
    "mlflow.note.content",
    "mlflow.runName",
    "mlflow.parentRunId",
    "mlflow.log-model.history",
    "mlflow.source.git.commit",
    "mlflow.source.git.repoURL",
    "mlflow.source.name",
    "mlflow.data.context",
    "estimator_name",
    "system/cpu",
]
NAME = TEXT | st.sampled_from(MEANT)
TAGS = st.dictionaries(NAME, TEXT, max_size=6)
MAYBE = st.none() | TEXT
TIME = st.none() | st.integers()
NUMBER = st.floats()
URI = st.sampled_from(
    ["s3://b/", "gs://b/", "abfss://c@a/", "https://h/", "file:", "/", "dbfs:/", "http://[", ""]
)
SOURCE = st.builds(
    lambda uri, rest, key: json.dumps({key: uri + rest}),
    URI,
    TEXT,
    st.sampled_from(["uri", "url", "path", "table", "table_name", "delta_table_name"]),
)
SOURCE_TYPE = st.sampled_from(["s3", "http", "delta_table", "spark", "hugging_face", "sql", ""])
METRIC = st.builds(
    Metric, NAME, NUMBER, TIME, TIME, st.none() | st.sampled_from(["m-1", "m-2"]), MAYBE, MAYBE
)
DATASET = st.builds(DatasetInput, TEXT, TEXT, SOURCE_TYPE, SOURCE | TEXT, MAYBE, MAYBE, TAGS)
MODEL = st.builds(
    LoggedModel,
    model_id=st.sampled_from(["m-1", "m-2"]),
    experiment_id=TEXT,
    name=TEXT,
    status=TEXT,
    model_type=MAYBE,
    params=TAGS,
    metrics=st.lists(METRIC, max_size=4).map(tuple),
)
RUN = st.builds(
    Run,
    run_id=st.uuids().map(lambda uuid: uuid.hex) | TEXT,
    experiment_id=TEXT,
    name=MAYBE,
    user_id=MAYBE,
    status=MAYBE,
    start_time_ms=TIME,
    end_time_ms=TIME,
    artifact_uri=MAYBE,
    lifecycle_stage=st.sampled_from(["active", "deleted"]) | TEXT,
    params=TAGS,
    metrics=st.lists(METRIC, max_size=6).map(tuple),
    tags=TAGS,
    datasets=st.lists(DATASET, max_size=3).map(tuple),
    model_inputs=st.lists(TEXT, max_size=2).map(tuple),
    model_outputs=st.lists(
        st.builds(ModelOutput, st.sampled_from(["m-1", "m-2", "m-3"]), TIME), max_size=3
    ).map(tuple),
)
EXPERIMENT = st.builds(
    Experiment, TEXT, TEXT, MAYBE, st.sampled_from(["active", "deleted"]), TIME, TIME, TAGS
)
REGISTERED = st.builds(RegisteredModel, TEXT, MAYBE, TIME, TIME, TAGS, TAGS)
VERSION = st.builds(
    ModelVersion,
    name=st.sampled_from(["m", "n"]) | TEXT,
    version=st.integers(0).map(str) | TEXT,
    stage=MAYBE | st.just("Production"),
    status=MAYBE,
    description=MAYBE,
    user_id=MAYBE,
    created_at_ms=TIME,
    last_updated_at_ms=TIME,
    aliases=st.lists(TEXT, max_size=2).map(tuple),
    tags=TAGS,
)
SCOPE = st.builds(
    a_scope,
    instance=st.none() | st.just("eu.west"),
    workspace=st.none() | st.just("team, (a)"),
    options=st.just({"alias_tags": True}) | st.none(),
    limits=st.none() | st.just({"aspect_bytes": 3_000, "tags": 2, "params": 2, "metrics": 2}),
)
JOINED_RUN = st.builds(
    JoinedRun,
    SCOPE,
    RUN,
    st.none() | EXPERIMENT,
    versions=st.lists(VERSION, max_size=3).map(tuple),
    models=st.dictionaries(st.sampled_from(["m-1", "m-2"]), MODEL, max_size=2),
    parent_name=MAYBE,
    has_children=st.none() | st.booleans(),
    children=st.none() | st.integers(0),
)
RECORD: st.SearchStrategy[JoinedRecord] = st.one_of(
    JOINED_RUN,
    st.builds(JoinedExperiment, SCOPE, EXPERIMENT),
    st.builds(JoinedRegisteredModel, SCOPE, REGISTERED, st.lists(TEXT, max_size=2).map(tuple)),
    st.builds(
        JoinedVersion,
        SCOPE,
        VERSION,
        st.none() | REGISTERED,
        st.none() | MODEL,
        st.none() | JOINED_RUN,
    ),
)


def check_aspect(kind: str, name: str, aspect: Any) -> None:
    assert validate_aspect(kind, name, aspect) == []
    for field in ("hyperParams", "trainingMetrics"):
        names = [entry["name"] for entry in aspect.get(field, ())]
        assert len(set(names)) == len(names)
        assert not any(name.startswith("mlcat.") for name in names)
    custom = aspect.get("customProperties", {})
    assert [key for key in custom if key.startswith("mlcat.")] in ([], ["mlcat.source"])


@given(RECORD)
def test_any_record_gives_valid_entities_or_is_skipped(record: JoinedRecord) -> None:
    try:
        entities = map_record(record)
    except SkippableError:
        return
    assert entities
    for entity in entities:
        decoded_parts(entity.urn)
        kind = entity_type_of(entity.urn)
        for proposal in written(entity):
            check_aspect(kind, proposal.aspect_name, proposal.aspect)
            assert loads(proposal.wire()["aspect"]["value"]) == proposal.aspect


@given(RECORD)
def test_mapping_is_a_function_of_the_record(record: JoinedRecord) -> None:
    try:
        assert map_record(record) == map_record(record)
    except SkippableError:
        return
