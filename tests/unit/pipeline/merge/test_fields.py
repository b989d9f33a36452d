"""The merge of fields whose base is not there: by keys, in order, nothing taken away."""

import pytest

from mlcat_ingest.metadata.entries import map_keys, same_json
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.pipeline.merge.aspects import merge_aspect
from support.fakes import group_urn
from support.merging import RULES

A, B, C = map(group_urn, "abc")


@pytest.mark.parametrize(
    ("aspect", "before", "fresh", "after"),
    [
        pytest.param(
            "mlModelProperties",
            {"groups": [B, C]},
            {"groups": [A, B]},
            {"groups": [B, C, A]},
            id="urns: stored order, then new ones in source order",
        ),
        pytest.param(
            "mlModelProperties",
            {"groups": [A], "mlFeatures": ["f"], "futureField": {"x": [1]}},
            {"groups": [A]},
            {"groups": [A], "mlFeatures": ["f"], "futureField": {"x": [1]}},
            id="absent and unknown fields pass through",
        ),
        pytest.param(
            "mlModelProperties",
            {"customProperties": {"theirs": "1", "mlflow.status": "RUNNING"}},
            {"customProperties": {"mlflow.status": "FINISHED", "new": "2"}},
            {"customProperties": {"theirs": "1", "mlflow.status": "FINISHED", "new": "2"}},
            id="maps by key, ours win",
        ),
        pytest.param(
            "mlModelProperties",
            {"hyperParams": [{"name": "lr", "value": "1", "unit": "x"}, {"name": "theirs"}]},
            {"hyperParams": [{"name": "depth", "value": "3"}, {"name": "lr", "value": "2"}]},
            {
                "hyperParams": [
                    {"name": "lr", "value": "2", "unit": "x"},
                    {"name": "theirs"},
                    {"name": "depth", "value": "3"},
                ]
            },
            id="hyperparameters by name, unknown sub-fields stay",
        ),
        pytest.param(
            "mlModelProperties",
            {"description": "old", "version": {"versionTag": "1", "metadataAttribution": {"a": 1}}},
            {"description": "new", "version": {"versionTag": "2"}},
            {"description": "new", "version": {"versionTag": "2", "metadataAttribution": {"a": 1}}},
            id="scalars are ours, unknown sub-fields stay",
        ),
        pytest.param(
            "mlModelProperties",
            {"description": "kept", "groups": [A]},
            {"description": None, "groups": None},
            {"description": "kept", "groups": [A]},
            id="a null takes nothing away that is not ours",
        ),
        pytest.param(
            "globalTags",
            {
                "tags": [
                    {"tag": "t", "attribution": {"source": "bot"}},
                    {"tag": "u", "context": "c"},
                ]
            },
            {"tags": [{"tag": "t"}, {"tag": "u"}]},
            {
                "tags": [
                    {"tag": "t", "attribution": {"source": "bot"}},
                    {"tag": "u", "context": "c"},
                    {"tag": "t"},
                ]
            },
            id="tags by tag and attribution source",
        ),
        pytest.param(
            "ownership",
            {"owners": [{"owner": "o", "type": "DATAOWNER"}, {"owner": "p", "type": "NONE"}]},
            {"owners": [{"owner": "o", "type": "NONE"}, {"owner": "p", "type": "NONE"}]},
            {
                "owners": [
                    {"owner": "o", "type": "DATAOWNER"},
                    {"owner": "p", "type": "NONE"},
                    {"owner": "o", "type": "NONE"},
                ]
            },
            id="owners by owner and type",
        ),
        pytest.param(
            "institutionalMemory",
            {"elements": [{"url": "u", "description": "theirs"}]},
            {"elements": [{"url": "u", "description": "ours"}, {"url": "v"}]},
            {"elements": [{"url": "u", "description": "ours"}, {"url": "v"}]},
            id="links by URL",
        ),
        pytest.param(
            "sourceCode",
            {"sourceCode": [{"type": "NOTEBOOK", "sourceCodeUrl": "x"}]},
            {"sourceCode": [{"type": "TRAINING_PIPELINE_SOURCE_CODE", "sourceCodeUrl": "x"}]},
            {
                "sourceCode": [
                    {"type": "NOTEBOOK", "sourceCodeUrl": "x"},
                    {"type": "TRAINING_PIPELINE_SOURCE_CODE", "sourceCodeUrl": "x"},
                ]
            },
            id="source code by type and URL",
        ),
        pytest.param(
            "mlModelTrainingData",
            {"trainingData": [{"dataset": "d", "motivation": "theirs"}]},
            {"trainingData": [{"dataset": "d"}, {"dataset": "e"}]},
            {"trainingData": [{"dataset": "d", "motivation": "theirs"}, {"dataset": "e"}]},
            id="training data by dataset",
        ),
        pytest.param(
            "browsePathsV2",
            {"path": [{"id": "old"}, {"id": "leaf"}]},
            {"path": [{"id": "new"}, {"id": "leaf"}]},
            {"path": [{"id": "new"}, {"id": "leaf"}]},
            id="a path is one value",
        ),
        pytest.param(
            "mlModelProperties",
            {"groups": "not a list", "hyperParams": None, "customProperties": []},
            {"groups": [A], "hyperParams": [{"name": "n"}], "customProperties": {"k": "v"}},
            {"groups": [A], "hyperParams": [{"name": "n"}], "customProperties": {"k": "v"}},
            id="a stored value of the wrong kind gives way",
        ),
        pytest.param(
            "mlModelProperties",
            {"groups": "not a list", "customProperties": [1], "hyperParams": {"a": 1}},
            {"groups": [], "customProperties": {}, "hyperParams": []},
            {"groups": "not a list", "customProperties": [1], "hyperParams": {"a": 1}},
            id="a stored value of the wrong kind does not give way to nothing",
        ),
        pytest.param(
            "mlModelProperties",
            {"name": "n"},
            {"groups": [], "hyperParams": [], "customProperties": {}, "description": None},
            {"name": "n"},
            id="empty values add no fields",
        ),
        pytest.param(
            "unheardOf",
            {"object": {"theirs": 1}},
            {"object": {"ours": 2}},
            {"object": {"theirs": 1, "ours": 2}},
            id="an object of an unknown aspect is a map",
        ),
        pytest.param(
            "mlModelProperties",
            {"hyperParams": ["stray", {"name": ["odd"]}, {"value": "nameless"}]},
            {"hyperParams": [{"name": "n", "value": "1"}]},
            {
                "hyperParams": [
                    "stray",
                    {"name": ["odd"]},
                    {"value": "nameless"},
                    {"name": "n", "value": "1"},
                ]
            },
            id="stored entries that are no records are kept",
        ),
        pytest.param(
            "mlModelProperties",
            {"hyperParams": [{"name": 7}, {"name": "n"}, {"name": True}]},
            {"hyperParams": [{"name": "n", "value": "1"}]},
            {"hyperParams": [{"name": 7}, {"name": "n", "value": "1"}, {"name": True}]},
            id="stored entries whose key is no text are kept",
        ),
        pytest.param(
            "unheardOf",
            {"list": [{"a": 1}, 2**70], "text": "x"},
            {"list": [{"b": 2}, {"a": 1}], "text": "y"},
            {"list": [{"a": 1}, 2**70, {"b": 2}], "text": "y"},
            id="records of an unknown aspect by their whole value",
        ),
        pytest.param(
            "ownership",
            {"owners": [{"owner": "o"}, {"owner": "o"}, {"owner": "p"}, {"owner": "p"}]},
            {"owners": [{"owner": "o", "source": {"type": "MANUAL"}}]},
            {
                "owners": [
                    {"owner": "o", "source": {"type": "MANUAL"}},
                    {"owner": "p"},
                    {"owner": "p"},
                ]
            },
            id="a stored repetition of ours becomes one, of theirs stays",
        ),
        pytest.param(
            "globalTags",
            {"tags": [{"tag": "t"}, "odd"]},
            {"tags": ["odd", {"tag": "t", "attribution": "no record"}]},
            {"tags": [{"tag": "t", "attribution": "no record"}, "odd"]},
            id="an attribution that is no record is none",
        ),
    ],
)
def test_merging(aspect: str, before: Aspect, fresh: Aspect, after: Aspect) -> None:
    merged = merge_aspect(aspect, before, fresh, RULES).value
    assert merged == after
    assert list(merged) == list(after)
    assert merge_aspect(aspect, merged, fresh, RULES).value is merged


def test_a_repetition_in_the_source_is_written_once() -> None:
    fresh = {"groups": [A, B, A], "hyperParams": [{"name": "n", "value": "1"}, {"name": "n"}]}
    merged = merge_aspect("mlModelProperties", None, fresh, RULES)
    assert merged.value == {"groups": [A, B], "hyperParams": [{"name": "n"}]}
    assert {field: len(text) for field, text in merged.applied.items()} == {
        "groups": 12,
        "hyperParams": 6,
    }
    again = merge_aspect("mlModelProperties", merged.value, fresh, RULES, merged.applied)
    assert again.value is merged.value


def test_a_stored_repetition_of_what_the_source_repeats_becomes_one() -> None:
    first = merge_aspect("mlModelProperties", None, {"groups": [A]}, RULES)
    twice = {"groups": [A, A]}
    merged = merge_aspect("mlModelProperties", twice, twice, RULES, first.applied)
    assert merged.value == {"groups": [A]}


@pytest.mark.parametrize(
    ("stored", "fresh", "after"),
    [
        ("odd", [A, A], [A]),
        (["n"], [{"name": "n"}], [{"name": "n"}]),
        ([{"name": ["odd"]}], [{"name": "n"}], [{"name": ["odd"]}, {"name": "n"}]),
        ([], [{"value": "1"}, {"value": "2"}], [{"value": "1"}, {"value": "2"}]),
    ],
)
def test_entries_that_are_no_records_or_have_no_key(
    stored: object, fresh: list[object], after: list[object]
) -> None:
    before = {"hyperParams": stored}
    merged = merge_aspect("mlModelProperties", before, {"hyperParams": fresh}, RULES)
    assert merged.value == {"hyperParams": after}


def test_the_keys_of_a_map_are_entries_but_for_those_about_the_entity() -> None:
    texts = ["a", "mlcat.source", "mlcat.features.of", "mlcat.applied.prod"]
    assert map_keys(texts) == ("a", "mlcat.features.of")
    assert map_keys([7, *texts]) == ("a", "mlcat.features.of")


def test_merging_changes_neither_side() -> None:
    before = {"groups": [A], "customProperties": {"a": "1"}, "hyperParams": [{"name": "n"}]}
    fresh = {
        "groups": [B],
        "customProperties": {"b": "2"},
        "hyperParams": [{"name": "n", "value": "1"}],
    }
    merge_aspect("mlModelProperties", before, fresh, RULES)
    assert before == {
        "groups": [A],
        "customProperties": {"a": "1"},
        "hyperParams": [{"name": "n"}],
    }
    assert fresh["groups"] == [B]


def test_keys_that_are_no_texts_are_left_to_whoever_sends_them() -> None:
    fresh = {"customProperties": {7: "x", "mlcat.source": "s", "a": "b"}}
    merged = merge_aspect("mlModelProperties", {"customProperties": {"z": "1"}}, fresh, RULES)
    assert merged.value == {"customProperties": {"z": "1", 7: "x", "mlcat.source": "s", "a": "b"}}
    assert len(merged.applied["customProperties"]) == 6


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, 1.0, True),
        ({"a": [1, {"b": "x"}]}, {"a": [1.0, {"b": "x"}]}, True),
        (1, True, False),
        ({"a": [0]}, {"a": [False]}, False),
        ({"a": 2**70}, {"a": 2**70}, True),
        ({"a": 1}, {"a": 2}, False),
    ],
)
def test_equality_is_that_of_json(left: object, right: object, *, same: bool) -> None:
    assert same_json(left, right) is same
