"""The properties of an entity as it is stored."""

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.pipeline.merge.provenance import custom_of, stored_properties
from support.fakes import model_urn


def test_the_properties_are_those_of_the_type() -> None:
    stored = {"mlModelProperties": StoredAspect({"name": "m"}, "1")}
    assert stored_properties(model_urn("m"), stored) == {"name": "m"}
    assert stored_properties(model_urn("m"), {}) is None
    assert stored_properties("urn:li:tag:t", stored) is None


def test_custom_properties_are_those_of_the_stored_ones() -> None:
    stored = {"mlModelProperties": StoredAspect({"customProperties": {"k": "v"}}, "1")}
    assert custom_of(model_urn("m"), stored) == {"k": "v"}
    assert custom_of(model_urn("m"), {}) == {}
