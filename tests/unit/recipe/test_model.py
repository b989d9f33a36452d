import io
import json
import os
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from pydantic import create_model

from mlcat_ingest.errors import RecipeError, RecipeSyntaxError, RecipeValidationError
from mlcat_ingest.recipe.dump import recipe_to_yaml
from mlcat_ingest.recipe.fields import RecipeModel
from mlcat_ingest.recipe.model import Recipe, SinkSpec, SourceSpec

MINIMAL = "sources: [{type: mlflow}]\n"


def parse(text: str, **environ: str) -> Recipe:
    return Recipe.parse(dedent(text), environ=environ)


def problems(text: str, **environ: str) -> list[str]:
    with pytest.raises(RecipeValidationError) as caught:
        parse(text, **environ)
    return list(caught.value.problems)


def test_the_smallest_recipe_and_its_defaults(tmp_path: Path) -> None:
    file = tmp_path / "nightly.prod.yml"
    file.write_text(MINIMAL)
    recipe = Recipe.load(file)
    assert recipe.name == "nightly.prod"
    assert recipe.sources == [SourceSpec(type="mlflow")]
    assert (recipe.enrich, recipe.sink) == ([], None)
    assert recipe.evaluate.model_dump() == {
        "enabled": True,
        "should_push": True,
        "where": "auto",
        "test_urns": [],
        "test_files": [],
        "scope": "written",
        "write_back": False,
        "verdicts": {"tag": (), "incident": ()},
    }
    assert recipe.limits.model_dump() == {"max_new_entities": 50_000, "max_removed_ratio": 0.2}
    assert recipe.state.url == f"sqlite:///{tmp_path}/.mlcat/state.db"
    assert recipe.base_dir == tmp_path


def test_a_whole_recipe() -> None:
    recipe = parse(
        """\
        name: prod
        sources:
          - {type: mlflow, config: {tracking_uri: "${URI:-http://m:5000}", runs: {since: null}}}
          - type: other
        enrich: []
        sink: {type: rest, config: {server: "${S}", token: "${T:-}"}}
        evaluate: {enabled: off, should_push: "no", test_urns: ["urn:li:test:a"]}
        limits: {max_new_entities: "${N}", max_removed_ratio: 1}
        state: {url: postgresql://h/db}
        """,
        S="http://s",
        N="7",
    )
    assert recipe.sources[0].config == {"tracking_uri": "http://m:5000", "runs": {"since": None}}
    assert recipe.sink == SinkSpec(type="rest", config={"server": "http://s", "token": ""})
    assert (recipe.evaluate.enabled, recipe.evaluate.should_push) == (False, False)
    assert recipe.limits.max_new_entities == 7
    assert recipe.state.url == "postgresql://h/db"
    assert recipe.base_dir == Path.cwd()


def test_the_words_of_datahub_recipes() -> None:
    recipe = parse("""\
        pipeline_name: dh
        source: {type: mlflow, config: {tracking_uri: "http://m"}}
        sink: {type: datahub-rest, config: {server: "http://s"}}
        """)
    assert recipe.name == "dh"
    assert [source.type for source in recipe.sources] == ["mlflow"]


def test_everything_is_reported_at_once_with_lines_and_without_values() -> None:
    assert problems("""\
        pipeline_name: ${NOPE}
        name: x
        source:
          tipe: mlflow
          extractor: generic
        sources: []
        transformers: [{type: simple_add_dataset_tags}]
        datahub_api: {server: "http://h"}
        stateful_ingestion: {enabled: true}
        run_id: r1
        sink: [rest]
        enrich: [{match: {}}]
        evaluate: {enabled: 12345, enabled: true, test_urns: [urn:li:tag:x]}
        limits: {max_new_entities: many, max_removed_ratio: 2}
        statee: 1
        """) == [
        "recipe.yml:1: pipeline_name: the variable NOPE is not set",
        "recipe.yml:1: pipeline_name: is another name of `name`; keep one",
        "recipe.yml:3: source: is another name of `sources`; keep one",
        "recipe.yml:6: sources: must have 1 or more entries",
        (
            "recipe.yml:7: transformers: is called `enrich` here: a list of rules such as "
            "{match: {entity: mlModel}, add_tags: [urn:li:tag:ml]}"
        ),
        "recipe.yml:8: datahub_api: is not needed: the connection is that of `sink`; delete it",
        "recipe.yml:9: stateful_ingestion: is an option of DataHub's own runner; delete it",
        "recipe.yml:10: run_id: is an option of DataHub's own runner; delete it",
        "recipe.yml:11: sink: must be a mapping of keys to values",
        (
            "recipe.yml:12: enrich[0]: adds nothing; use one of add_tags, add_terms, "
            "set_domain, add_owners, structured_properties, model_card"
        ),
        "recipe.yml:13: evaluate.enabled: duplicate key, already on line 13",
        "recipe.yml:13: evaluate.enabled: must be true or false",
        (
            "recipe.yml:13: evaluate.test_urns[0]: "
            "must be the URN of a metadata test: urn:li:test:<id>"
        ),
        "recipe.yml:14: limits.max_new_entities: must be a whole number",
        "recipe.yml:14: limits.max_removed_ratio: must be 1 or less",
        "recipe.yml:15: statee: is not a known key; did you mean `state`?",
    ]


def test_places_are_spelled_as_the_author_did() -> None:
    assert problems("source:\n  type: [x]\n  extractor: generic\n  conf: 1\n") == [
        "recipe.yml:2: source.type: must be text; put it in quotes",
        "recipe.yml:3: source.extractor: is an option of DataHub's own runner; delete it",
        "recipe.yml:4: source.conf: is not a known key; did you mean `config`?",
    ]
    assert problems("name: x\n") == ["recipe.yml:1: sources: is required"]
    assert problems("source: 1\npipeline_name: ''\n") == [
        "recipe.yml:1: source: must be a mapping of keys to values",
        "recipe.yml:2: pipeline_name: must not be empty",
    ]


@pytest.mark.parametrize("text", ["[1]", "text", "12", "null"])
def test_a_recipe_is_a_mapping(text: str) -> None:
    assert problems(text) == ["recipe.yml:1: a recipe must be a mapping of keys to values"]


def test_an_unset_variable_hides_nothing_else_and_is_reported_once() -> None:
    assert problems("""\
        sources: [{type: "${TYPE}"}]
        limits: {max_new_entities: "${MAX}", max_removed_ratio: x}
        """) == [
        "recipe.yml:1: sources[0].type: the variable TYPE is not set",
        "recipe.yml:2: limits.max_new_entities: the variable MAX is not set",
        "recipe.yml:2: limits.max_removed_ratio: must be a number",
    ]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        Recipe.load(tmp_path / "none.yml")
    assert str(caught.value) == (
        f"no recipe at {tmp_path}/none.yml (`mlcat-ingest init` writes one)"
    )
    with pytest.raises(RecipeError, match="cannot be read: Is a directory"):
        Recipe.load(tmp_path)
    with pytest.raises(RecipeError, match="cannot be read: its path is invalid"):
        Recipe.load("a\0b")


def test_errors_name_the_file_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "r.yml").write_text("a: 1\n---\nb: 1\n")
    with pytest.raises(RecipeSyntaxError, match=r"^sub/r\.yml:2: "):
        Recipe.load("sub/r.yml")
    (tmp_path / "sub" / "r.yml").write_text("nope: 1\n")
    with pytest.raises(RecipeValidationError, match=r"^sub/r\.yml:1: "):
        Recipe.load("sub/r.yml")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(MINIMAL.encode())))
    assert Recipe.load("-").name == "recipe"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"nope: 1")))
    with pytest.raises(RecipeValidationError, match=r"^<stdin>:1: "):
        Recipe.load("-")


def test_json_recipes(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    content = {"$schema": "recipe.schema.json", "source": {"type": "mlflow"}, "limits": None}
    file.write_text(json.dumps(content, indent="\t"))
    with pytest.raises(RecipeValidationError) as caught:
        Recipe.load(file)
    assert caught.value.problems == (f"{file}:6: limits: must be a mapping of keys to values",)
    del content["limits"]
    file.write_text(json.dumps(content))
    assert Recipe.load(file).name == "r"


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLCAT_TEST_NAME", "from-environment")
    recipe = Recipe.parse('name: "${MLCAT_TEST_NAME}"\n' + MINIMAL)
    assert recipe.name == "from-environment"
    assert "MLCAT_TEST_NAME" in os.environ


def test_a_null_config_is_an_empty_one() -> None:
    assert parse("sources: [{type: mlflow, config: null}]").sources[0].config == {}


def test_a_recipe_made_in_python() -> None:
    recipe = Recipe(sources=[SourceSpec(type="mlflow")])
    assert recipe.name == "recipe"
    assert recipe.origin.label == ""
    assert recipe.base_dir == Path.cwd()
    with pytest.raises(ValueError, match="frozen"):
        recipe.name = "other"


def test_secrets_are_in_no_repr_and_no_json() -> None:
    recipe = parse(
        """\
        source: {type: mlflow, config: {a: "${S}", password: in-the-open, b: ["x${S}"]}}
        sink: {type: rest, config: {token: "${S}"}}
        """,
        S="s3",
    )
    for shown in (repr(recipe), str(recipe), recipe.model_dump_json(), recipe_to_yaml(recipe)):
        assert "s3" not in shown
        assert "in-the-open" not in shown
        assert "${S}" in shown
    assert recipe.sources[0].config["b"] == ["xs3"]


@pytest.mark.parametrize(
    ("arguments", "name", "source", "sink"),
    [
        (("http://mlflow:5000",), "mlflow-mlflow-5000", {}, None),
        (("https://u:p@h.example/x?y",), "mlflow-h.example", {}, None),
        (("sqlite:///mlflow.db",), "mlflow-mlflow", {"limit": 5, "instance": "a"}, None),
        (("./mlruns",), "mlflow-mlruns", {}, None),
        (("http://",), "mlflow-http", {}, None),
        (("/",), "mlflow-local", {}, None),
        (("http://h", "http://s"), "mlflow-h", {}, ("rest", {"server": "http://s"})),
        (("http://h", "https://s"), "mlflow-h", {}, ("rest", {"server": "https://s"})),
        (("http://h", "a.db"), "mlflow-h", {}, ("embedded", {"db": "a.db"})),
        (("http://h", "sqlite:///a"), "mlflow-h", {}, ("embedded", {"db": "sqlite:///a"})),
        (("http://h", "out.jsonl"), "mlflow-h", {}, ("file", {"path": "out.jsonl"})),
    ],
)
def test_the_recipe_of_a_tracking_uri(
    arguments: tuple[Any, ...],
    name: str,
    source: dict[str, Any],
    sink: tuple[str, object] | None,
) -> None:
    recipe = Recipe.for_tracking_uri(*arguments, registry_uri=None, **source)
    assert recipe.name == name
    assert recipe.sources[0].config == {"tracking_uri": arguments[0], **source}
    assert (recipe.sink and (recipe.sink.type, recipe.sink.config)) == sink


def test_a_model_without_a_source_file_has_a_schema_without_descriptions() -> None:
    made = create_model("Made", __base__=RecipeModel, size=(int, ...))
    assert made.model_json_schema()["properties"] == {"size": {"title": "Size", "type": "integer"}}
