"""`get`, `query`, `evaluate`, `task`: the service's endpoints from a shell."""

import io
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import pytest

from mlcat_ingest.cli.options import connect
from mlcat_ingest.client.base import Evaluation, StoredAspect, TestOutcome
from mlcat_ingest.client.rest.client import TaskStatus
from mlcat_ingest.core.resources import Closing
from mlcat_ingest.errors import CatalogUnavailableError
from mlcat_ingest.recipe.secrets import SECRETS
from support.cli import Invoke
from support.fakes import group_urn, model_urn

GROUP = group_urn("g")


@dataclass
class Service(Closing):
    """A client of a service that answers what the test says."""

    aspects: dict[str, dict[str, Any]] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    evaluation: Evaluation = field(default_factory=Evaluation)
    status: TaskStatus = field(default_factory=lambda: TaskStatus("n:1"))
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def read_many(self, urns: Sequence[str], aspects: Collection[str]) -> Any:
        return {
            urn: {
                name: StoredAspect(value)
                for name, value in self.aspects[urn].items()
                if name in aspects
            }
            for urn in urns
            if urn in self.aspects
        }

    def graphql(self, query: str, variables: Any) -> Any:
        self.asked.append((query, variables))
        return self.data

    @property
    def evaluator(self) -> Self:
        return self

    def evaluate_batch(
        self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
    ) -> Evaluation:
        self.asked.append((len(urns), should_push, tuple(test_urns)))
        return self.evaluation

    def task_status(self, task: str) -> TaskStatus:
        self.asked.append(("status", task))
        return self.status

    def wait(self, task: str, *, timeout_s: float) -> TaskStatus:
        self.asked.append(("wait", task, timeout_s))
        if not self.status.completed:
            raise CatalogUnavailableError("task n:1 is still at work after 5 s")
        return self.status

    def close(self) -> None:
        self.asked.append(("closed",))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    made = Service()
    for module in ("options", "service"):
        monkeypatch.setattr(f"mlcat_ingest.cli.{module}.connect", lambda *_, **__: made)
    return made


# --- get -----------------------------------------------------------------------------------------


def test_one_aspect(invoke: Invoke, service: Service) -> None:
    service.aspects[GROUP] = {"status": {"removed": False}}
    result = invoke("get", GROUP, "status")
    assert result.code == 0
    assert json.loads(result.out) == {"removed": False}


def test_all_aspects(invoke: Invoke, service: Service) -> None:
    stored = {"mlModelGroupProperties": {"name": "ü"}, "mlModelGroupKey": {"name": "g"}}
    service.aspects[GROUP] = stored
    result = invoke("get", GROUP)
    assert json.loads(result.out) == stored
    assert "ü" in result.out


@pytest.mark.parametrize("aspect", [[], ["status"]])
@pytest.mark.usefixtures("service")
def test_nothing_there(aspect: list[str], invoke: Invoke) -> None:
    result = invoke("get", GROUP, *aspect)
    assert (result.code, result.out) == (1, "")
    assert f"the catalog has no {'aspect status of ' if aspect else ''}{GROUP}" in result.err


@pytest.mark.usefixtures("service")
def test_an_entity_of_an_unknown_type_needs_the_aspect(invoke: Invoke) -> None:
    result = invoke("get", "urn:li:thingOfOthers:x")
    assert result.code == 2
    assert "name an aspect" in result.err


@pytest.mark.parametrize(
    ("command", "text", "message"),
    [
        ("get", "urn:li", "is not a URN"),
        ("get", " ", "the name is empty"),
        ("evaluate", "mlModel", "is not a URN"),
    ],
)
def test_what_is_no_urn_is_a_usage_error(
    command: str, text: str, message: str, invoke: Invoke, service: Service
) -> None:
    result = invoke(command, text)
    assert result.code == 2
    assert message in result.err
    assert service.asked == []


# --- query ---------------------------------------------------------------------------------------


def test_a_query_with_variables(invoke: Invoke, service: Service) -> None:
    service.data = {"mlModelGroup": {"name": "g"}}
    result = invoke("query", "query($u: String!) { x }", "--variables", '{"u": "v"}')
    assert json.loads(result.out) == service.data
    assert service.asked[0] == ("query($u: String!) { x }", {"u": "v"})


def test_a_query_from_standard_input(
    invoke: Invoke, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("{ me }"))
    assert invoke("query", "-").code == 0
    assert service.asked[0] == ("{ me }", None)


@pytest.mark.parametrize(("text", "message"), [("{", "not JSON"), ("[]", "not a JSON object")])
def test_variables_that_are_none(text: str, message: str, invoke: Invoke, service: Service) -> None:
    result = invoke("query", "{ me }", "--variables", text)
    assert result.code == 2
    assert message in result.err
    assert service.asked == []


# --- evaluate ------------------------------------------------------------------------------------


def test_outcomes_are_printed(invoke: Invoke, service: Service) -> None:
    outcome = TestOutcome(passing=("urn:li:test:a",), failing=("urn:li:test:b",))
    service.evaluation = Evaluation({GROUP: outcome})
    result = invoke("evaluate", GROUP, "--push", "--test", "urn:li:test:a")
    assert result.code == 0
    assert result.out.splitlines() == [
        f"{GROUP}: 1 passing, 1 failing",
        "  passing  urn:li:test:a",
        "  failing  urn:li:test:b",
    ]
    assert service.asked[0] == (1, True, ("urn:li:test:a",))


def test_many_are_evaluated_in_batches(invoke: Invoke, service: Service) -> None:
    urns = [model_urn(f"r{n}") for n in range(201)]
    service.evaluation = Evaluation(dict.fromkeys(urns, TestOutcome((), ())))
    assert invoke("evaluate", *urns).code == 0
    assert [one[0] for one in service.asked] == [200, 1, "closed"]
    assert service.asked[0][1] is False


def test_what_is_not_evaluated_is_a_failure(invoke: Invoke, service: Service) -> None:
    service.aspects[GROUP] = {"mlModelGroupKey": {}}
    service.evaluation = Evaluation(not_evaluated="403: no permission")
    result = invoke("evaluate", GROUP)
    assert result.code == 1
    assert result.err == "mlcat-ingest: not evaluated: 403: no permission\n"


# --- task ----------------------------------------------------------------------------------------


def test_a_task(invoke: Invoke, service: Service) -> None:
    service.status = TaskStatus("n:1", completed=True, run_time_ns=5, status={"total": 3})
    result = invoke("task", "n:1")
    assert json.loads(result.out) == {
        "completed": True,
        "taskId": "n:1",
        "runTimeNanos": 5,
        "status": {"total": 3},
    }
    assert service.asked[0] == ("status", "n:1")


def test_a_task_that_is_waited_for(invoke: Invoke, service: Service) -> None:
    service.status = TaskStatus("n:1", completed=True)
    assert invoke("task", "n:1", "--wait", "--timeout", "5").code == 0
    assert service.asked[0] == ("wait", "n:1", 5.0)


@pytest.mark.usefixtures("service")
def test_a_timeout_goes_with_waiting(invoke: Invoke) -> None:
    result = invoke("task", "n:1", "--timeout", "5")
    assert result.code == 2
    assert "--timeout requires --wait" in result.err


@pytest.mark.usefixtures("service")
def test_a_task_that_takes_too_long(invoke: Invoke) -> None:
    result = invoke("task", "n:1", "--wait", "--timeout", "5")
    assert result.code == 1
    assert "still at work" in result.err


def test_a_task_that_is_not_known(invoke: Invoke, service: Service) -> None:
    service.status = TaskStatus("n:1", error="Could not get task status for n:1")
    result = invoke("task", "n:1")
    assert (result.code, result.out) == (1, "")
    assert result.err == "mlcat-ingest: Could not get task status for n:1\n"


# --- which service -------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["s3cret-token", None])
def test_a_token_is_masked_from_then_on(token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLCAT_TOKEN", "DATAHUB_GMS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DATAHUB_SKIP_CONFIG", "1")
    with connect("http://catalog:8080", token) as client:
        assert client.server == "http://catalog:8080"
    masked = "***" if token else "s3cret-token"
    assert SECRETS.mask("s3cret-token") == masked


def test_a_service_that_nothing_names(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    for name in ("MLCAT_SERVER", "DATAHUB_GMS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    result = invoke("get", GROUP)
    assert result.code == 2
    assert "MLCAT_SERVER" in result.err


# --- when ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("champion", "in", "churn"), "'in' is not 'of'"),
        (("champion", "of", "churn", "--on", "yesterday"), "'yesterday' is no day and no time"),
        (("champion", "of", "churn", "--on", "0001-01-01T00:00+14:00"), "is no day and no time"),
        (("champion", "of", "churn", "--recipe", "r.yml", "--server", "http://x"), "exclude"),
    ],
)
def test_wrong_words(words: tuple[str, ...], message: str, invoke: Invoke) -> None:
    result = invoke("when", *words)
    assert result.code == 2
    assert message in result.err
