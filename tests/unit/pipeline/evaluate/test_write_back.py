"""Verdicts that cannot be written back are noted, and tried again by the next full pass."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mlcat_ingest.client.base import Evaluation, TestOutcome
from mlcat_ingest.errors import RecipeError, SourceUnavailableError
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.evaluate.evaluator import _verdict_text
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.base import (
    EntityTags,
    Everything,
    Finished,
    Page,
    Partition,
    ReadRequest,
    RecordVersion,
)
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.source import MlflowSource
from support.fakes import FakeRecord, FakeSink, FakeSource, model_urn
from support.recipes import a_recipe

NAMED = "urn:li:test:named"
MODELS = 20


@dataclass
class Tagged(FakeSource):
    """Reads models, and keeps the tags that it is given."""

    tags: dict[str, str] = field(default_factory=dict)
    take: Callable[[str], str | None] = lambda _: None

    def __post_init__(self) -> None:
        self.can_set_tags = True

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        partition = request.state.partition(Partition("fake:1", "", {}, ""))
        names = [f"{number:02}" for number in range(MODELS)]
        records = [FakeRecord(name, RecordVersion("thing", name, name)) for name in names]
        yield Page(records, partition)
        yield Finished(partition, {"read": True}, complete=True)

    def map(self, record: FakeRecord) -> list[Entity]:
        return [Entity(model_urn(record.value), {"mlModelProperties": {"name": record.value}})]

    def set_tags(self, entities: Sequence[EntityTags]) -> Iterator[tuple[str, str | None]]:
        for entity in entities:
            problem = self.take(entity.urn)
            if problem is None:
                self.tags[entity.urn] = entity.tags["mlcat.tests"]
            yield entity.urn, problem


class Passing(FakeSink):
    """Evaluates one test, which all entities pass."""

    evaluated: list[str]

    def evaluate_batch(
        self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
    ) -> Evaluation:
        del should_push, test_urns
        return Evaluation(dict.fromkeys(urns, TestOutcome((NAMED,))))


@dataclass
class World:
    folder: Path
    sink: FakeSink = field(default_factory=lambda: Passing(place="fake://catalog"))
    source: Tagged = field(default_factory=Tagged)

    def ingest(self) -> Report:
        state = StateSession(
            f"sqlite:///{self.folder / 'state.db'}", StateOptions("test", full=True)
        )
        recipe = a_recipe("test", evaluate={"write_back": True, "where": "service"})
        options = RunOptions(recipe, state=state, scope=Everything())
        return PipelineRun([self.source], self.sink, options).execute()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_verdicts_that_a_source_did_not_answer_for_are_written_by_the_next_full_pass(
    world: World,
) -> None:
    def take(_: str) -> str | None:
        if len(world.source.tags) == 5:
            raise SourceUnavailableError("MLflow does not answer")
        return None

    world.source.take = take
    report = world.ingest()
    assert (report.exit_code, report.verdicts_written) == (0, 5)
    assert report.notes == {"verdicts_not_written": 1}
    world.source.take = lambda _: None
    report = world.ingest()
    assert (report.notes, report.proposals_sent) == ({}, 0)
    assert len(world.source.tags) == MODELS
    assert world.ingest().verdicts_written == 0


def test_a_refused_verdict_is_named_and_tried_again(world: World) -> None:
    refused = model_urn("07")
    world.source.take = lambda urn: "403: no permission" if urn == refused else None
    report = world.ingest()
    assert report.verdicts_written == MODELS - 1
    assert report.note_examples["verdict_not_written"] == (f"{refused}: 403: no permission",)
    world.source.take = lambda _: None
    assert world.ingest().verdicts_written == 1


def test_a_source_that_takes_no_verdict_is_not_asked_for_all(world: World) -> None:
    world.source.take = lambda _: "403: no permission"
    assert world.ingest().notes == {"verdict_not_written": 16, "verdicts_not_written": 1}


@pytest.mark.parametrize(
    ("failing", "passing", "text"),
    [
        ((), ("named",), "passing"),
        (("has-owner", "accurate"), ("named",), "failing: accurate, has-owner"),
        ((), (), "no tests"),
        ([f"t{n}" for n in range(1, 10)] + ["u1", "u2", "u3"], (), None),
        (["x" * 400], (), f"failing: {'x' * 100}"),
    ],
)
def test_a_verdict_names_the_failing_tests(
    failing: Sequence[str], passing: Sequence[str], text: str | None
) -> None:
    urns = [tuple(f"urn:li:test:{name}" for name in names) for names in (passing, failing)]
    expected = text or "failing: t1, t2, t3, t4, t5, t6, t7, t8, t9, u1 and 2 more"
    assert _verdict_text(TestOutcome(*urns)) == expected


@pytest.mark.parametrize("reader", ["client", "database"])
def test_a_source_that_is_not_read_over_http_is_an_error_before_anything_is_read(
    reader: str, tmp_path: Path
) -> None:
    uri = "http://127.0.0.1:1" if reader == "client" else f"sqlite:///{tmp_path}/mlflow.db"
    config = MlflowConfig.model_validate({"tracking_uri": uri, "reader": reader})
    recipe = a_recipe("test", evaluate={"write_back": True})
    with pytest.raises(RecipeError, match="no source is an MLflow server that is read over HTTP"):
        PipelineRun([MlflowSource(config)], FakeSink(), RunOptions(recipe))


def test_verdicts_need_an_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yml"
    path.write_text(
        "source: {type: mlflow, config: {tracking_uri: 'http://127.0.0.1:1'}}\n"
        "evaluate: {enabled: false, write_back: true}\n"
    )
    with pytest.raises(RecipeError, match=r"recipe\.yml:2: evaluate: `write_back` requires"):
        Recipe.load(path)
