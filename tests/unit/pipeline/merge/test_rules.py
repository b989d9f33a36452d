"""The rules of a writer, and the aspects and fields that they speak of."""

from mlcat_ingest.metadata.entries import keys_of
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.merge.rules import (
    MergeRules,
    properties_aspect,
    version_set_of,
    without_computed,
)
from support.fakes import model_urn


def test_a_writer_without_a_name_and_one_that_adds_take_nothing_away() -> None:
    rules = MergeRules(Writer("prod"), {"globalTags": {"tags": "ours"}})
    assert rules.default == "three_way"
    assert rules.adding().default == MergeRules(None).default == "union"
    assert rules.adding().policies == {}


def test_computed_fields_are_left_out() -> None:
    aspect = {"version": {"versionTag": "1"}}
    assert without_computed("versionProperties", {**aspect, "isLatest": True}) == aspect
    assert without_computed("versionProperties", aspect) is aspect


def test_the_version_set_of_a_version() -> None:
    urn = "urn:li:versionSet:(a,mlModel)"
    version = Entity(model_urn("a"), {"versionProperties": {"versionSet": urn}})
    assert version_set_of(version) == urn
    assert version_set_of(Entity(model_urn("a"), {})) is None


def test_a_key_of_several_fields_has_none_for_an_absent_one() -> None:
    code = [{"type": "a", "sourceCodeUrl": "b"}, {"type": "a"}]
    assert keys_of("sourceCode", "sourceCode", code) == [("a", "b"), ("a", None)]


def test_the_aspect_with_custom_properties() -> None:
    assert properties_aspect("mlModel") == "mlModelProperties"
    assert properties_aspect("tag") == ""
    assert properties_aspect("unheardOf") == ""
