import json
import re
from inspect import signature
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlcat_ingest.cli import init
from mlcat_ingest.cli.main import cli
from mlcat_ingest.recipe.model import Recipe


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def runner() -> CliRunner:
    """A runner that keeps stderr apart, which click before 8.2 does only if asked."""
    asked = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
    return CliRunner(**asked)  # type: ignore[arg-type]


def run_init(*arguments: str) -> tuple[int, str, str]:
    result = runner().invoke(init.command, arguments, **cli.context_settings)
    return result.exit_code, result.stdout, result.stderr


def test_init_writes_a_recipe_that_loads(folder: Path) -> None:
    code, out, err = run_init("--tracking-uri", "http://m:5000", "--server", "http://g:8080/gms")
    assert (code, out) == (0, "")
    assert err == "wrote recipe.yml and recipe.schema.json; next: mlcat-ingest check recipe.yml\n"
    recipe = Recipe.load(folder / "recipe.yml", {})
    assert recipe.name == "mlflow"
    assert recipe.sources[0].config["tracking_uri"] == "http://m:5000"
    assert recipe.sink is not None
    assert recipe.sink.config == {"server": "http://g:8080/gms", "token": ""}


def test_init_names_the_recipe_by_its_file(folder: Path) -> None:
    assert run_init("team-a.yml")[0] == 0
    assert Recipe.load(folder / "team-a.yml", {}).name == "team-a"
    assert "mlcat-ingest team-a.yml" in (folder / "team-a.yml").read_text()


def test_the_rules_that_init_leaves_out_load_once_they_are_comments_no_more(folder: Path) -> None:
    run_init()
    text = (folder / "recipe.yml").read_text()
    head, sign, rest = text.partition("# enrich:")
    block, _, tail = f"{sign}{rest}".partition("\n\n")
    block = re.sub(r"(?m)^# ", "", block)
    (rule,) = Recipe.parse(f"{head}{block}\n\n{tail}", environ={}).enrich
    assert rule.set_domain == "urn:li:domain:risk"
    assert rule.add_tags == ("urn:li:tag:fraud",)


def test_init_says_what_a_user_has_to_know_before_the_first_run(folder: Path) -> None:
    run_init()
    text = (folder / "recipe.yml").read_text()
    assert text.startswith("# yaml-language-server: $schema=recipe.schema.json\n")
    schema_ = json.loads((folder / "recipe.schema.json").read_text())
    assert {"source", "sink", "limits"} <= schema_["properties"].keys()
    name = " ".join(text.partition("# The name")[2].partition("\nname:")[0].split())
    assert "owns every entry that this recipe writes" in name
    assert "not change it" in name
    sqlite = text.partition("sqlite:///mlflow.db")
    assert sqlite[1]
    assert "extra" not in sqlite[0].rpartition("tracking_uri")[2].rpartition("\n")[2]


def test_init_overwrites_only_when_forced(folder: Path) -> None:
    (folder / "recipe.yml").write_text("mine")
    (folder / "recipe.schema.json").write_text("mine")
    assert run_init("other.yml")[0] == 0
    assert (folder / "recipe.schema.json").read_text() == "mine"
    code, _, err = run_init()
    assert code == 2
    assert "recipe.yml already exists; --force" in err
    assert (folder / "recipe.yml").read_text() == "mine"
    assert run_init("--force")[0] == 0
    assert Recipe.load("recipe.yml", {}).name == "mlflow"


def test_init_prints(folder: Path) -> None:
    code, out, _ = run_init("-")
    assert code == 0
    assert Recipe.parse(out, environ={}).name == "mlflow"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("no-such-folder/r.yml",), "cannot be written: No such file or directory"),
        (
            ("--tracking-uri", "http://u:pw@m"),
            "the tracking URI holds a user name or a password",
        ),
        (("--server", "http://u:pw@m"), "the server holds a user name or a password"),
    ],
)
def test_init_refuses(folder: Path, arguments: tuple[str, ...], sentence: str) -> None:
    code, _, err = run_init(*arguments)
    assert code == 2
    assert sentence in err
    assert "pw" not in err
    assert list(folder.iterdir()) == []


def test_schema_prints_a_schema() -> None:
    result = runner().invoke(init.schema_command, **cli.context_settings)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["title"] == "mlcat-ingest recipe"
