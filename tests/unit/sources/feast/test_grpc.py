"""Requests to a registry server are messages, made without the classes of Feast's service."""

from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.sources.feast.grpc import project_request
from mlcat_ingest.sources.feast.registry import MESSAGES


@given(st.text(max_size=300) | st.integers(0, 70_000).map("x".__mul__))
def test_a_project_of_any_length_is_asked_for_by_its_name(project: str) -> None:
    # As in requests, the first field is a text.
    assert MESSAGES["ProjectSpec"].FromString(project_request(project)).name == project
