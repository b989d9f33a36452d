from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.client.config import RestSinkConfig
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.recipe.connection import ConnectionConfig
from mlcat_ingest.recipe.fields import RecipeModel, content_of, names_of
from mlcat_ingest.recipe.loader import Origin
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.recipe.validate import validate_config
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.workflows.resolve import resolve

ORIGIN = Origin("r.yml", Path("/the/recipes"))
VALUES: dict[str, Any] = {
    "timeout_s": 7.0,
    "retries": 3,
    "verify": True,
    "ca_bundle": "ca.pem",
    "client_cert": "c.pem",
    "client_key": "k.pem",
    "headers": {"X": "y"},
    "token": "t0ken",
    "username": "ada",
    "password": "p4ss",
}
OTHER_NAMES = [
    (name, other)
    for name, field in ConnectionConfig.model_fields.items()
    for other in names_of(name, field)[1:]
]


def message_of(**raw: Any) -> tuple[ConnectionConfig | None, list[str]]:
    config, problems = validate_config(ConnectionConfig, raw, (), ORIGIN)
    return config, [problem.render() for problem in problems]


def beside(name: str) -> dict[str, Any]:
    return {"client_cert": "c.pem"} if name == "client_key" else {}


@pytest.mark.parametrize(("name", "other"), OTHER_NAMES)
def test_another_name_means_what_the_first_one_does(name: str, other: str) -> None:
    value = VALUES[name]
    new, _ = message_of(**{name: value}, **beside(name))
    old, _ = message_of(**{other: value}, **beside(name))
    assert new is not None
    assert new == old
    assert getattr(new, name) != ConnectionConfig.model_fields[name].default


@pytest.mark.parametrize(("name", "other"), OTHER_NAMES)
def test_both_keys_are_one_problem_at_the_other_name(name: str, other: str) -> None:
    value = VALUES[name]
    raw = {other: value, name: value, **beside(name)}
    _, problems = message_of(**raw)
    assert problems == [f"{other}: is another name of `{name}`; keep one"]


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({"retry_max_times": -1}, "retry_max_times: must be 0 or more"),
        ({"retry_max_times": "many"}, "retry_max_times: must be a whole number"),
        ({"disable_ssl_verification": "?"}, "disable_ssl_verification: must be true or false"),
        (
            {"verify": False, "disable_ssl_verification": True},
            "`disable_ssl_verification` is the opposite of `verify`; keep one",
        ),
        (
            {"disable_ssl_verification": True, "ca_bundle": "ca.pem"},
            "`verify: false` and `ca_bundle` exclude each other: set one of them",
        ),
        ({"client_key": "k.pem"}, "`client_key` needs `client_cert`"),
        (
            {"token": "t0ken", "password": "p4ss"},
            "`token` excludes `username` and `password`: set one or the other",
        ),
    ],
)
def test_a_problem_is_at_the_key_that_was_written(raw: dict[str, Any], problem: str) -> None:
    assert message_of(**raw)[1] == [problem]


def test_all_problems_are_reported_at_once() -> None:
    _, problems = message_of(retry_max_times=-1, verify="off?", timeout_sec=-1, colour="red")
    assert sorted(problem.partition(":")[0] for problem in problems) == [
        "colour",
        "retry_max_times",
        "timeout_sec",
        "verify",
    ]


def test_a_problem_names_the_line_of_a_recipe() -> None:
    text = """\
name: r
source: {type: mlflow}
sink:
  type: rest
  config:
    retries: 3
    retry_max_times: 4
"""
    with pytest.raises(RecipeError) as reported:
        resolve(Recipe.parse(text))
    sentence = "recipe.yml:7: sink.config.retry_max_times: is another name of `retries`; keep one"
    assert sentence in str(reported.value)
    with pytest.raises(RecipeError) as reported:
        resolve(Recipe.parse(text.replace("    retries: 3\n", "").replace("4", "-1")))
    assert "recipe.yml:6: sink.config.retry_max_times: must be 0 or more" in str(reported.value)


@pytest.mark.parametrize(("given", "verifies"), [(None, None), (True, False), (False, True)])
def test_datahubs_key_is_the_opposite_of_ours(given: object, verifies: object) -> None:
    config, _ = message_of(disable_ssl_verification=given)
    assert config is not None
    assert config.verifies is verifies


@pytest.mark.parametrize("side", [RestSinkConfig, MlflowConfig, FeastConfig])
def test_every_side_takes_all_keys_and_none_of_them_is_content(
    side: type[RecipeModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert issubclass(side, ConnectionConfig)
    place = {"registry": "registry.db"} if side is FeastConfig else {}
    given = {key: value for key, value in VALUES.items() if key not in {"username", "password"}}
    reached = side.model_validate({**place, **given})
    assert content_of(reached) == content_of(side.model_validate(place))
    assert not VALUES.keys() & content_of(reached).keys()
