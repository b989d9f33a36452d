"""`--fail-on-tests` and `--junit`: the status, the file, and what is a usage error."""

import json
import re
from pathlib import Path

import pytest

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.workflows.resolve import Resolved
from support.cli import Invoke
from support.fakes import FakeSink, FakeSource, model_urn
from support.junit_schema import suites_of

OWNED = "urn:li:test:owned"


class Built:
    """A source or a sink of a resolved recipe that is made already."""

    type = "fake"
    config = None

    def __init__(self, side: object) -> None:
        self.side = side

    def build(self, **_: str) -> object:
        return self.side


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> FakeSink:
    models = [Entity(model_urn(name), {"mlModelProperties": {"name": name}}) for name in "abc"]
    made = FakeSink(failing_tests={model_urn("b"): (OWNED,)})
    recipe = Recipe.parse("{name: test, sources: [{type: mlflow}]}")

    def load(_: str) -> Resolved:
        source, sink = Built(FakeSource([models])), Built(made)
        return Resolved(recipe, (source,), sink)  # type: ignore[arg-type]

    monkeypatch.setattr("mlcat_ingest.workflows.resolve.load_resolved", load)
    return made


@pytest.mark.usefixtures("sink")
def test_a_failing_test_is_status_3_and_named(invoke: Invoke) -> None:
    result = invoke("recipe.yml", "--fail-on-tests", "owned")
    assert result.code == 3
    assert "but metadata tests did not pass" in result.out
    assert (
        "1 newly failing, 0 still failing, 0 passing, of the tests that match 'owned'" in result.out
    )
    assert f"newly failing: {model_urn('b')} b: {OWNED}" in result.out
    assert invoke("recipe.yml", "--fail-on-tests", "named").code == 0


@pytest.mark.usefixtures("sink")
def test_the_report_holds_the_verdict(invoke: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    assert invoke("recipe.yml", "--fail-on-tests", "owned", "--report", str(file)).code == 3
    report = json.loads(file.read_text())
    assert report["exit_code"] == 3
    assert report["gate"] == {
        "passed": False,
        "pattern": "owned",
        "passing": 0,
        "failing": 1,
        "newly_failing": 1,
        "unevaluated": 0,
        "not_evaluated": [],
        "tests": [{"urn": OWNED, "name": None, "passing": 0, "failing": 1, "newly_failing": 1}],
        "examples": [{"entity": model_urn("b"), "test": OWNED, "newly": True, "name": "b"}],
    }
    invoke("recipe.yml", "--report", str(file))
    assert json.loads(file.read_text())["gate"] is None


def test_junit_has_a_suite_a_test_and_a_case_an_entity(
    invoke: Invoke, sink: FakeSink, tmp_path: Path
) -> None:
    file = tmp_path / "tests.xml"
    sink.put(OWNED, "testInfo", {"name": 'Has <an> "owner" & a \x0bname'})
    result = invoke("recipe.yml", "--fail-on-tests", ".", "--junit", str(file))
    assert result.code == 3
    named, owned = suites_of(file)
    assert [case.get("name") for case in named.iter("testcase")] == [model_urn(n) for n in "abc"]
    assert (named.get("tests"), named.get("failures"), named.get("package")) == ("3", "0", "test")
    [case] = owned.iter("testcase")
    assert case.get("name") == model_urn("b")
    [failure] = case
    assert failure.get("message", "").startswith('newly failing: Has <an> "owner" & a ')
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("known", [True, False])
def test_what_was_not_evaluated_is_skipped(
    invoke: Invoke,
    sink: FakeSink,
    tmp_path: Path,
    known: bool,  # noqa: FBT001
) -> None:
    file = tmp_path / "tests.xml"
    if known:
        sink.not_evaluated = "the token may not (403)"
    pattern = "named" if known else "nosuch"
    result = invoke("recipe.yml", "--fail-on-tests", pattern, "--junit", str(file))
    assert result.code == 3
    [suite] = suites_of(file)
    skipped = [case.get("name") for case in suite.iter("testcase")]
    assert skipped == ([model_urn(name) for name in "abc"] if known else ["nosuch"])
    [reason] = {one.get("message") for one in suite.iter("skipped")}
    assert re.search("403" if known else "no metadata test", reason or "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fail-on-tests", "(a"), "is not a regular expression"),
        (("--junit", "tests.xml"), "--junit goes with --fail-on-tests"),
        (("--fail-on-tests", "a", "--junit", "none/tests.xml"), "the folder none does not exist"),
    ],
)
def test_usage_errors(invoke: Invoke, sink: FakeSink, options: tuple[str, ...], words: str) -> None:
    result = invoke("recipe.yml", *options)
    assert result.code == 2
    assert words in result.err
    assert sink.writes == []


@pytest.mark.usefixtures("sink")
def test_results_that_cannot_be_written_are_a_failure(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "tests.xml.partial").mkdir()
    file = tmp_path / "tests.xml"
    result = invoke("recipe.yml", "--fail-on-tests", "named", "--junit", str(file))
    assert result.code == 1
    assert f"the test results cannot be written to {file}: Is a directory" in result.err
