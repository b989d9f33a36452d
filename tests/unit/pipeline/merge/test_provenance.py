"""The properties of an entity as it is stored."""

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.pipeline.merge.provenance import stored_properties
from support.fakes import model_urn


def test_the_properties_are_those_of_the_type() -> None:
    stored = {"mlModelProperties": StoredAspect({"name": "m"}, "1")}
    assert stored_properties(model_urn("m"), stored) == {"name": "m"}
    assert stored_properties(model_urn("m"), {}) is None
    assert stored_properties("urn:li:tag:t", stored) is None
