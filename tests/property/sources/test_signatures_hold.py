"""Whatever a signature holds, its table is valid, and models link to the features of that table."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.links.index import Features
from mlcat_ingest.links.rules import LinkOptions, UnlinkedModel, resolve, verify
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.urn import decoded_parts, entity_type_of
from mlcat_ingest.metadata.validate import validate_aspect
from mlcat_ingest.sources.mlflow.mapping import map_record
from mlcat_ingest.sources.mlflow.values.joined import JoinedRun, RunFiles
from mlcat_ingest.sources.mlflow.values.records import LoggedModel, ModelOutput, model_document
from mlcat_ingest.sources.mlflow.values.signatures import signature_tables
from support.merging import written
from support.mlflow_records import a_run, a_scope, an_experiment

# Any text that Python can hold, half surrogate pairs included.
NAME = st.text(st.characters(), max_size=30) | st.text(max_size=400)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | NAME,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAME, inner, max_size=3),
    max_leaves=6,
)
TYPE = st.sampled_from(["double", "long", "string", "datetime", "tensor", "array"]) | ANY
SPEC = st.fixed_dictionaries({"dtype": NAME, "shape": st.lists(st.integers(), max_size=3)}) | ANY
COLUMN = st.fixed_dictionaries({}, optional={"name": NAME | ANY, "type": TYPE, "tensor-spec": SPEC})


def joined(name: str, inputs: list[Any], most: int) -> JoinedRun:
    scope = a_scope(options={"links": LinkOptions(from_signature=True)}, limits={"columns": most})
    document = model_document({"signature": {"inputs": json.dumps(inputs)}, "flavors": {}})
    return JoinedRun(
        scope,
        a_run(model_outputs=(ModelOutput("m-1"),)),
        an_experiment(name=name),
        models={"m-1": LoggedModel("m-1", "1", name, "READY")},
        files=RunFiles(documents={"m-1": document}),
    )


@given(NAME, st.lists(COLUMN, max_size=8), st.integers(1, 4))
def test_any_signature_gives_valid_tables_that_have_what_models_link_to(
    name: str, inputs: list[Any], most: int
) -> None:
    record = joined(name, inputs, most)
    held: set[str] = set()
    for table in signature_tables(record):
        entities = map_record(table)
        for entity in entities:
            decoded_parts(entity.urn)
            for proposal in written(entity):
                kind = entity_type_of(entity.urn)
                assert validate_aspect(kind, proposal.aspect_name, proposal.aspect) == []
                assert loads(proposal.wire()["aspect"]["value"]) == proposal.aspect
        features = [one.urn for one in entities if entity_type_of(one.urn) == "mlFeature"]
        properties = entities[-1].aspects["mlFeatureTableProperties"]
        assert properties["mlFeatures"] == features
        assert len(features) <= most
        cut = len(table.columns) > most
        assert cut == ("mlflow.left_out" in properties["customProperties"])
        held.update(features)
    model = map_record(record)[-1]
    linked: tuple[str, ...] = ()
    if isinstance(model, UnlinkedModel):
        candidate, _ = resolve(model.evidence, Features(), model.options)
        linked = verify(candidate, dict[str, bool]().get, dangling=False).urns
    assert set(linked) == held


def test_thousands_of_columns_are_cut_and_counted() -> None:
    inputs = [{"name": f"column_{i}", "type": "double"} for i in range(5_000)]
    record = joined("wide", inputs, 2_000)
    (table,) = signature_tables(record)
    entities = map_record(table)
    assert len(entities) == 2_001
    custom = entities[-1].aspects["mlFeatureTableProperties"]["customProperties"]
    assert custom["mlflow.left_out"] == "3000 of 5000 columns"
    shown = map_record(record)[-1].aspects["mlModelProperties"]["customProperties"]
    kept = json.loads(shown["signature.inputs"])
    assert kept == inputs[: len(kept)]
    assert shown["mlflow.left_out"] == f"{5_000 - len(kept)} of 5000 inputs of the signature"
