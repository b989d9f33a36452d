"""Metadata tests of a recipe: created where the catalog lacks them, else compared."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.errors import NotAuthorizedError, RecipeError
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.pipeline.evaluate.evaluator import _create_tests
from mlcat_ingest.recipe.metadata_test_files import FileTest
from support.fakes import FakeSink

FILE = Path("tests.yml")
A, B = "urn:li:test:a", "urn:li:test:b"


def info(text: str = '{"on": {}}', **more: Any) -> dict[str, Any]:
    return {"name": "n", "category": "c", "definition": {"type": "JSON", "json": text}, **more}


def of_files(*urns: str, **more: Any) -> Mapping[str, FileTest]:
    return {urn: FileTest(FILE, Proposal(urn, "testInfo", info(**more))) for urn in urns}


@pytest.fixture
def sink() -> FakeSink:
    return FakeSink(place="fake://catalog")


def test_tests_that_are_absent_are_created_on_condition_that_they_still_are(sink: FakeSink) -> None:
    sink.put(A, "testInfo", info())
    assert _create_tests(sink, of_files(B, A)) is None
    [[written]] = sink.writes
    assert (written.entity_urn, written.headers) == (B, {"If-Version-Match": "-1"})
    assert sink.stored[B]["testInfo"] == info()
    assert _create_tests(sink, of_files(A, B)) is None
    assert len(sink.writes) == 1
    assert sink.reads == [[A, B], [A, B]]


def test_tests_are_read_and_written_in_batches(sink: FakeSink) -> None:
    assert _create_tests(sink, of_files(*(f"urn:li:test:{n}" for n in range(201)))) is None
    assert [len(urns) for urns in sink.reads] == [200, 1]
    assert [len(proposals) for proposals in sink.writes] == [200, 1]


@pytest.mark.parametrize(
    ("stored", "field"),
    [
        (info(), None),
        (info('{ "on":\n{}}'), None),
        (info(md5="of the service"), None),
        (info(name="m"), "name"),
        (info('{"on": {"types": []}}'), "definition"),
        (info("{"), "definition"),
        ({**info(), "definition": {"type": "JSON"}}, "definition"),
        ({"name": "n", "category": "c"}, "definition"),
    ],
)
def test_a_test_that_the_catalog_holds_otherwise_is_an_error(
    sink: FakeSink, stored: dict[str, Any], field: str | None
) -> None:
    sink.put(A, "testInfo", stored)
    if field is None:
        assert _create_tests(sink, of_files(A)) is None
        return
    with pytest.raises(RecipeError, match=f"tests.yml: .*{A} has another {field} in the catalog"):
        _create_tests(sink, of_files(A, B))
    assert sink.writes == []


def test_definitions_that_are_no_json_are_compared_as_texts(sink: FakeSink) -> None:
    sink.put(A, "testInfo", info("{"))
    assert _create_tests(sink, of_files(A, text="{")) is None


def test_a_test_that_another_writer_creates_meanwhile_is_compared(sink: FakeSink) -> None:
    theirs = [info(), info(name="m")]

    def interfere(proposals: object) -> None:
        del proposals
        sink.put(A, "testInfo", theirs.pop(0))

    sink.before_write = interfere
    assert _create_tests(sink, of_files(A, B)) is None
    assert sink.stored[A]["testInfo"] == sink.stored[B]["testInfo"] == info()
    assert [len(proposals) for proposals in sink.writes] == [2]
    sink.stored.clear()
    with pytest.raises(RecipeError, match="another name"):
        _create_tests(sink, of_files(A, B))


def test_tests_that_were_refused_with_that_of_another_writer_are_sent_again() -> None:
    class Whole(FakeSink):
        """Refuses the first request whole."""

        def _has_moved(self, proposal: Proposal) -> bool:
            return len(self.writes) == 1 or super()._has_moved(proposal)

    sink = Whole(place="fake://catalog")
    sink.before_write = lambda _: sink.put(A, "testInfo", info())
    assert _create_tests(sink, of_files(A, B)) is None
    assert [[one.entity_urn for one in proposals] for proposals in sink.writes] == [[A, B], [B]]
    assert sink.stored[B]["testInfo"] == info()


def test_a_test_that_is_refused_is_named_with_its_reason(sink: FakeSink) -> None:
    sink.refuse = {B}
    problem = _create_tests(sink, of_files(A, B))
    assert problem is not None
    assert problem.startswith("tests.yml: a metadata test cannot be created: ")
    assert "not liked" in problem


def test_a_condition_that_never_holds_ends_with_a_reason() -> None:
    class Replica(FakeSink):
        """Reads are behind the writes for ever."""

        def _has_moved(self, proposal: Proposal) -> bool:
            del proposal
            return True

    sink = Replica(place="fake://catalog")
    problem = _create_tests(sink, of_files(A, B))
    assert problem is not None
    assert problem.startswith(f"the metadata test {A} cannot be created: ")
    assert len(sink.writes) == 1


def test_a_catalog_that_does_not_answer_is_a_reason(sink: FakeSink) -> None:
    def refuse(urns: object) -> None:
        raise NotAuthorizedError(f"no: {urns}")

    sink.before_read = refuse
    problem = _create_tests(sink, of_files(A))
    assert problem is not None
    assert problem.startswith("the recipe's metadata tests cannot be created: no")
