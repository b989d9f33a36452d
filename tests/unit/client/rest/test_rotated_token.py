"""A token in a file may be another one later: it is read anew after a 401 and for each pass."""

from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.client.rest.catalog import RestCatalog
from mlcat_ingest.recipe import secrets
from mlcat_ingest.recipe.draft import draft_of
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.workflows.resolve import ResolvedRecipe, resolve
from support.fake_service import Answer, Asked, FakeService

pytestmark = pytest.mark.process


@pytest.fixture
def accepted(service: FakeService) -> list[str]:
    """The one token that the service accepts."""
    tokens = ["first-made-up-token"]

    def config(asked: Asked) -> Answer:
        if asked.headers.get("Authorization") != f"Bearer {tokens[0]}":
            return Answer(401, b"Unauthorized")
        return Answer(body={"noCode": "true"})

    service.on("GET", "/config", config)
    return tokens


def resolved(path: Path, service: FakeService) -> ResolvedRecipe:
    path.write_text(
        f"""\
name: rotated
source: {{type: mlflow, config: {{tracking_uri: "http://mlflow:5000"}}}}
sink:
  type: rest
  config: {{server: "{service.server}", token: "${{file:token}}", retry_for_s: 0}}
"""
    )
    return resolve(Recipe.load(path))


def opened(recipe: ResolvedRecipe) -> RestCatalog:
    assert recipe.sink is not None
    config: Any = recipe.sink.config
    return RestCatalog(config)


def test_a_token_that_was_rotated_while_a_process_runs_is_read_anew(
    tmp_path: Path, service: FakeService, accepted: list[str]
) -> None:
    token = tmp_path / "token"
    token.write_text(f"{accepted[0]}\n")
    recipe = resolved(tmp_path / "recipe.yml", service)
    catalog = opened(recipe)
    catalog.open()
    accepted[0] = "second-made-up-token"
    token.write_text(f"{accepted[0]}\n")
    assert catalog._connection.read("/config").ok
    # Who writes it anew a moment later finds the former one in use.
    token.unlink()
    assert catalog._connection.read("/config").ok
    assert catalog._connection.mask(f"Bearer {accepted[0]}") == "Bearer ***"
    assert accepted[0] not in secrets.mask(f"Bearer {accepted[0]}")


def test_the_next_pass_of_a_resolved_recipe_signs_in_with_the_rotated_token(
    tmp_path: Path, service: FakeService, accepted: list[str]
) -> None:
    token = tmp_path / "token"
    token.write_text("long-expired-token")
    recipe = resolved(tmp_path / "recipe.yml", service)
    token.write_text(accepted[0])
    assert "catalog" in opened(recipe).open()
    assert [asked.path for asked in service.asked] == ["/config"]


def test_a_draft_reads_its_files_again_and_keeps_the_text_where_that_fails(tmp_path: Path) -> None:
    (tmp_path / "part").write_text("one")
    text = "name: {token: 'a-${file:part}-${NAME}'}"
    value = draft_of(text, "r.yml", tmp_path, {"NAME": "n"}).data["name"]["token"]
    (tmp_path / "part").write_text("two")
    assert (value, value.now()) == ("a-one-n", "a-two-n")
    (tmp_path / "part").unlink()
    assert value.now() == "a-one-n"
