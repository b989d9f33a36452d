from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from mlcat_ingest.client.config import EmbeddedSinkConfig, FileSinkConfig, RestSinkConfig
from mlcat_ingest.errors import RecipeValidationError, UnknownPluginError
from mlcat_ingest.recipe.model import Recipe, SinkSpec, SourceSpec
from mlcat_ingest.recipe.secrets import mask
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.workflows import resolve as module
from mlcat_ingest.workflows.resolve import ResolvedRecipe, embedded_sink, load_resolved, resolve


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(text: str, **environ: str) -> ResolvedRecipe:
    Path("recipe.yml").write_text(dedent(text))
    return load_resolved("recipe.yml", environ)


def problems(text: str, **environ: str) -> list[str]:
    with pytest.raises(RecipeValidationError) as caught:
        load(text, **environ)
    return list(caught.value.problems)


def test_types_become_configurations(folder: Path) -> None:
    resolved = load(
        """\
        sources:
          - {type: mlflow, config: {tracking_uri: "sqlite:///mlflow.db", instance: "${I}"}}
          - type: mlflow
            config: {tracking_uri: ./mlruns, platform_instance: b}
        sink: {type: datahub-rest, config: {server: "http://s/", token: "${T}"}}
        """,
        I="a",
        T="sesame",
    )
    first, second = (source.config for source in resolved.sources)
    assert isinstance(first, MlflowConfig)
    assert isinstance(second, MlflowConfig)
    assert first.tracking_uri == f"sqlite:///{folder}/mlflow.db"
    assert (first.instance, second.instance) == ("a", "b")
    assert second.tracking_uri == f"{folder}/mlruns"
    assert resolved.sink is not None
    assert resolved.sink.type == "rest"
    assert isinstance(resolved.sink.config, RestSinkConfig)
    assert resolved.sink.config.server == "http://s"
    assert resolved.recipe.name == "recipe"
    assert mask("sesame") == "***"


def test_mistakes_of_the_recipe_and_of_its_plug_ins_come_together(folder: Path) -> None:
    assert folder.exists()
    assert problems("""\
        nmae: x
        sources:
          - type: mlflow
            config:
              traking_uri: http://m
              runs: {select: everything, children: include}
              timeout_s: ${NOPE}
          - type: mflow
          - config: {}
          - {type: mlflow, config: [1]}
          - 7
        sink:
          type: datahub-kafka
        """) == [
        "recipe.yml:1: nmae: is not a known key; did you mean `name`?",
        (
            "recipe.yml:5: sources[0].config.traking_uri: "
            "is not a known key; did you mean `tracking_uri`?"
        ),
        (
            "recipe.yml:6: sources[0].config.runs.select: "
            "must be 'all', 'with_model' or 'registered'"
        ),
        "recipe.yml:7: sources[0].config.timeout_s: the variable NOPE is not set",
        "recipe.yml:8: sources[1].type: is not a source that is installed; did you mean `mlflow`?",
        "recipe.yml:9: sources[2].type: is required",
        "recipe.yml:10: sources[3].config: must be a mapping of keys to values",
        "recipe.yml:11: sources[4]: must be a mapping of keys to values",
        "recipe.yml:13: sink.type: is not a sink that is installed; did you mean `datahub-rest`?",
    ]


def test_places_below_source_are_spelled_so(folder: Path) -> None:
    assert folder.exists()
    assert problems("source:\n  type: mlflow\n  config:\n    limit: 0\nsink: {type: zzz}\n") == [
        "recipe.yml:4: source.config.limit: must be 1 or more",
        (
            "recipe.yml:5: sink.type: is not a sink that is installed; "
            "available: datahub-rest, embedded, file, rest"
        ),
    ]
    assert problems("sources: 5\nsink: 5\n") == [
        "recipe.yml:1: sources: must be a list",
        "recipe.yml:2: sink: must be a mapping of keys to values",
    ]
    assert problems("sources: [{type: mlflow}]\nsink: {type: file}\n") == [
        "recipe.yml:2: sink.config.path: is required"
    ]


def test_no_sink_is_none_and_the_embedded_one_can_stand_in(tmp_path: Path) -> None:
    recipe = Recipe(sources=[SourceSpec(type="mlflow")])
    assert resolve(recipe).sink is None
    sink = embedded_sink(tmp_path)
    assert sink.type == "embedded"
    assert sink.config == EmbeddedSinkConfig(db=f"sqlite:///{tmp_path}/mlcat-catalog.db")


def test_recipes_made_in_python_have_places_without_lines() -> None:
    recipe = Recipe(
        sources=[SourceSpec(type="mlflow", config={"limit": 0})],
        sink=SinkSpec(type="file", config={}),
    )
    with pytest.raises(RecipeValidationError) as caught:
        resolve(recipe)
    assert caught.value.problems == (
        "sources[0].config.limit: must be 1 or more",
        "sink.config.path: is required",
    )


def test_what_was_loaded_resolves_with_its_lines_and_folder(folder: Path) -> None:
    (folder / "recipe.yml").write_text(
        "source:\n  type: mlflow\nsink:\n  type: file\n  config: {path: out.jsonl, nope: 1}\n"
    )
    recipe = Recipe.load("recipe.yml")
    with pytest.raises(RecipeValidationError, match=r"^recipe\.yml:5: sink\.config\.nope: "):
        resolve(recipe)
    (folder / "recipe.yml").write_text(
        "source: {type: mlflow}\nsink: {type: file, config: {path: out.jsonl}}\n"
    )
    resolved = resolve(Recipe.load("recipe.yml"))
    assert resolved.sink is not None
    assert isinstance(resolved.sink.config, FileSinkConfig)
    assert resolved.sink.config.path == folder / "out.jsonl"


def test_sources_and_sinks_are_made_of_their_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = Recipe(
        sources=[SourceSpec(type="mlflow")], sink=SinkSpec(type="file", config={"path": "x"})
    )
    resolved = resolve(recipe)
    monkeypatch.setattr(
        module,
        "source_class",
        lambda kind: lambda config: SimpleNamespace(kind=kind, config=config),
    )
    monkeypatch.setattr(module, "load", lambda target: lambda config: (target, config))
    [source] = resolved.sources
    built: Any = source.build()
    assert (built.kind, built.config) == ("mlflow", source.config)
    assert built.place == "sources[0]"
    assert resolved.sink is not None
    built = resolved.sink.build()
    assert built == ("mlcat_ingest.client.file:FileCatalog", resolved.sink.config)


def test_a_plug_in_that_is_broken_is_a_problem_of_its_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> type[BaseModel]:
        raise UnknownPluginError(f"{name} cannot be imported", hint="install it")

    assert folder.exists()
    monkeypatch.setattr(module, "config_class", broken)
    assert problems("source: {type: mlflow}") == [
        "recipe.yml:1: source.type: mlflow cannot be imported (install it)"
    ]


def test_no_value_is_repeated(folder: Path) -> None:
    assert folder.exists()
    found = problems(
        """\
        source:
          type: mlflow
          config:
            tracking_uri: {a: "${S}"}
            token: [12345, sesame]
            password: {x: "${S}"}
            since: "${S}"
            runs: {since: "${S}", statuses: ["${S}"]}
            env: "${S}"
            experiments: {allow: ["[${S}"]}
        sink: {type: rest, config: {server: "${S}", token: 5, timeout_s: "${S}"}}
        limits: {max_new_entities: "${S}"}
        """,
        S="s3same",
    )
    assert len(found) >= 11
    assert "s3same" not in "\n".join(found)
    assert "sesame" not in "\n".join(found)


@pytest.mark.parametrize(
    ("sink", "environ", "problem"),
    [
        ("{type: rest}", {}, "no address of a catalog service is configured (set `server`, "),
        ("{type: datahub-rest, config: {}}", {}, "no address of a catalog service is configured"),
        ("{type: rest}", {"MLCAT_SERVER": "localhost"}, "(MLCAT_SERVER) is not an http(s) address"),
        (
            "{type: rest}",
            {"MLCAT_SERVER": "http://s", "MLCAT_TOKEN": "é"},
            "(MLCAT_TOKEN) contains",
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_sink_without_an_address_is_among_the_problems(
    sink: str, environ: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MLCAT_SERVER", "DATAHUB_GMS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DATAHUB_SKIP_CONFIG", "1")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    found = problems(
        f"nmae: x\nsource: {{type: mlflow, config: {{tracking_uri: a.db}}}}\nsink: {sink}"
    )
    assert len(found) == 2
    assert found[0].startswith("recipe.yml:1: nmae: is not a known key")
    assert problem in found[1]
    assert "--server" not in found[1]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("tracking_uri: http://h", "source.config.tracking_uri"),
        ("max_new_entities: 5", "limits.max_new_entities"),
        ("server_id: a", "source.config.server_id"),
        ("add_tags: [a]", "enrich[0].add_tags"),
        ("source: {type: mlflow, tracking_uri: http://h}", "source.config.tracking_uri"),
        ("source: {type: mlflow, config: {full_every: 1d}}", "state.full_every"),
        ("source: {type: mlflow, config: {children: skip}}", "source.config.runs.children"),
        ("source: {type: mlflow, config: {runs: {instance: a}}}", "source.config.instance"),
        ("sink: {type: rest, server: http://h}", "sink.config.server"),
        ("sink: {type: rest, config: {limits: {}}}", "limits"),
        ("retries: 1\nsink: {type: rest}", "sink.config.retries` or `source.config.retries"),
    ],
)
def test_a_key_at_another_level_of_the_recipe_is_refused_with_its_place(
    folder: Path, text: str, place: str
) -> None:
    del folder
    sides = {"source": "source: {type: mlflow}", "sink": "sink: {type: file, config: {path: p}}"}
    lines = [line for key, line in sides.items() if f"{key}:" not in text]
    assert refused_keys("\n".join([text, *lines])) == [f"it belongs at `{place}`"]


def test_a_key_of_another_source_is_refused_with_its_place_there(folder: Path) -> None:
    del folder
    text = "sources: [{type: feast}, {type: mlflow, max_bytes: 1}]"
    assert refused_keys(text) == ["it belongs at `sources[0].config.max_bytes`"]
    text = text.replace("max_bytes", "system_metrics")
    assert refused_keys(text) == ["it belongs at `sources[1].config.system_metrics`"]


def refused_keys(text: str) -> list[str]:
    marked = (problem.partition(": is not a known key here; ") for problem in problems(text))
    return [words for _, found, words in marked if found]
