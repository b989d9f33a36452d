import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from mlcat_ingest.errors import RecipeError, RecipeSyntaxError, RecipeValidationError
from mlcat_ingest.links.index import FeatureRef, FeatureSet
from mlcat_ingest.sources.definitions.file_source import DefinitionsConfig, DefinitionsSource
from mlcat_ingest.sources.definitions.files import find_files
from mlcat_ingest.sources.definitions.tables import DatasetPlace, Feature, FeatureTable, Key
from support.reading import pages_of

RAW = "urn:li:dataset:(urn:li:dataPlatform:hive,raw.trips,PROD)"
GOOD = f"""\
version: 1
platform: custom
namespace: rides
tables:
  - name: drivers
    description: how drivers do
    owners: [ann, "urn:li:corpGroup:maps"]
    tags: {{team: maps, gold: }}
    properties: {{sla: daily}}
    sources: ["{RAW}", {{platform: snowflake, name: db.s.t}}]
    keys: [{{name: driver, column: driver_id, type: ORDINAL}}]
    features:
      - {{name: rate, type: CONTINUOUS, version: "2"}}
      - {{name: a:b, sources: []}}
sets:
  ranking: ["drivers:rate", "drivers:a:b"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def source_of(path: Path) -> DefinitionsSource:
    return DefinitionsSource(DefinitionsConfig(path=path))


def problems(folder: Path, **files: str) -> list[str]:
    for name, text in files.items():
        (folder / f"{name}.yml").write_text(text)
    with pytest.raises(RecipeValidationError) as caught:
        list(source_of(folder).definitions())
    return list(caught.value.problems)


def headed(text: str) -> str:
    return f"version: 1\nplatform: custom\n{text}"


def test_a_file_is_tables_and_then_sets(folder: Path) -> None:
    (folder / "a.yml").write_text(GOOD)
    assert list(source_of(folder / "a.yml").definitions()) == [
        FeatureTable(
            namespace="rides",
            name="drivers",
            kind="Feature Table",
            platform="custom",
            description="how drivers do",
            owners=("ann", "urn:li:corpGroup:maps"),
            tags={"team": "maps", "gold": ""},
            properties={"sla": "daily", "definitions.sets": "ranking"},
            sources=(RAW, DatasetPlace("snowflake", "db.s.t")),
            keys=(
                Key(
                    name="driver",
                    column="driver_id",
                    type="ORDINAL",
                    properties={"join_key": "driver_id"},
                ),
            ),
            features=(
                Feature(name="rate", type="CONTINUOUS", version="2"),
                Feature(name="a:b", sources=()),
            ),
        ),
        FeatureSet(
            namespace="rides",
            name="ranking",
            features=(FeatureRef("drivers", "rate"), FeatureRef("drivers", "a:b")),
        ),
    ]


def test_a_file_that_is_written_meanwhile_is_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "a.yml"
    path.write_text(GOOD)

    def fstat_and_write(number: int) -> os.stat_result:
        found = os.stat(number)
        with path.open("a") as stream:
            stream.write("# more\n")
        return found

    monkeypatch.setattr("mlcat_ingest.recipe.loader.os", SimpleNamespace(fstat=fstat_and_write))
    assert "changed" in "".join(problems(folder))


def test_json_is_read_as_well_and_hidden_files_are_not(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "a.json").write_text('{"version": 1, "platform": "x", "tables": [\t]}')
    (folder / ".git").mkdir()
    (folder / ".git" / "b.yml").write_text("not: ours")
    (folder / "notes.txt").write_text("not ours")
    assert list(source_of(folder).definitions()) == []
    assert list(source_of(folder / "**" / "*.json").definitions()) == []


@pytest.mark.parametrize("path", ["none.yml", "empty", "*.yml"])
def test_no_file_is_an_error_and_no_empty_store(folder: Path, path: str) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(RecipeError, match="`path`"):
        list(source_of(folder / path).definitions())


def test_links_are_followed_once_and_one_that_leads_nowhere_is_reported(folder: Path) -> None:
    (folder / "here").mkdir()
    (folder / "here" / "a.yml").write_text(GOOD)
    (folder / "here" / "round").symlink_to(folder / "here")
    (folder / "here" / "self").symlink_to("self")
    (folder / "there").mkdir()
    (folder / "there" / "b.yml").write_text(GOOD.replace("rides", "meals"))
    (folder / "here" / "theirs").symlink_to(folder / "there")
    (folder / "here" / "again").symlink_to(folder / "there")
    read = list(source_of(folder / "here").definitions())
    assert sorted(one.namespace or "" for one in read) == ["meals", "meals", "rides", "rides"]
    for path in ("here", "here/*.yml"):
        (folder / "here" / "gone.yml").unlink(missing_ok=True)
        (folder / "here" / "gone.yml").symlink_to("nowhere.yml")
        with pytest.raises(RecipeError, match=r"here/gone\.yml: No such file"):
            list(source_of(folder / path).definitions())


def test_a_folder_that_cannot_be_read_is_no_empty_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.yml").write_text(GOOD)
    (folder / "closed").mkdir()
    entries = Path.iterdir

    def closed(path: Path) -> Iterator[Path]:
        if path.name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return entries(path)

    monkeypatch.setattr(Path, "iterdir", closed)
    for path in (folder, folder / "**" / "*.yml", folder / "*" / "a.y*"):
        with pytest.raises(RecipeError, match="closed: Permission denied"):
            list(source_of(path).definitions())


def test_a_path_that_no_file_can_have_is_reported(folder: Path) -> None:
    with pytest.raises(RecipeError, match="File name too long"):
        list(source_of(folder / ("x" * 5_000)).definitions())


@pytest.mark.parametrize(
    "pattern", ["**/*.yml", "*/*/*.yml", "one/**/t?o/[c].yml", "**", "one/two/*", "**/two/**/c.*"]
)
def test_a_pattern_means_what_it_means_elsewhere(folder: Path, pattern: str) -> None:
    (folder / "one" / "two").mkdir(parents=True)
    for at, name in enumerate(("one/a.yml", "b.yml", "one/two/c.yml")):
        (folder / name).write_text(GOOD.replace("rides", f"n{at}"))
    found = find_files(folder / pattern)
    # Python before 3.13 finds folders alone by a pattern that ends with `**`.
    files = f"{pattern}/*" if pattern == "**" else pattern
    assert set(found) == {one for one in folder.glob(files) if one.is_file()}
    assert found == sorted(found)
    assert folder / "one" / "two" / "c.yml" in found


def test_everything_that_is_wrong_is_reported_with_file_line_and_path(folder: Path) -> None:
    text = """\
version: 2
platform: custom
nmae: x
tables:
  - name: drivers
    tag: {a: b}
    owners: ["urn:li:dataset:x", 5]
    sources: ["urn:li:mlModel:x", foo, {platform: s3}, 7, {platform: S3, name: "s3://b/k"}]
    features:
      - {name: rate, type: CONTINUOS}
      - {type: TEXT}
  - foo
sets:
  b: 5
platform: twice
"""
    assert [line.split("; known")[0] for line in problems(folder, bad=text)] == [
        "bad.yml:1: version: must be 1",
        "bad.yml:3: nmae: is not a known key",
        "bad.yml:6: tables[0].tag: is not a known key; did you mean `tags`?",
        (
            "bad.yml:7: tables[0].owners[0]: is not the URN of a corpuser or corpGroup;"
            " use a name, or such a URN"
        ),
        "bad.yml:7: tables[0].owners[1]: must be text; put it in quotes",
        *(
            f"bad.yml:8: tables[0].sources[{at}]: must be the URN of a dataset, "
            "or {platform: ..., name: ...}"
            for at in range(2)
        ),
        "bad.yml:8: tables[0].sources[2].name: is required",
        "bad.yml:8: tables[0].sources[3]: must be text; put it in quotes",
        "bad.yml:8: tables[0].sources[4].platform: is not a platform; did you mean `s3`?",
        (
            "bad.yml:8: tables[0].sources[4].name: is an address; write the name, such as "
            "`bucket/folder`, or give the URN"
        ),
        (
            "bad.yml:10: tables[0].features[0].type: must be 'USELESS', 'NOMINAL', 'ORDINAL', "
            "'BINARY', 'COUNT', 'TIME', 'INTERVAL', 'IMAGE', 'VIDEO', 'AUDIO', 'TEXT', 'MAP', "
            "'SEQUENCE', 'SET', 'CONTINUOUS', 'BYTE' or 'UNKNOWN'"
        ),
        "bad.yml:11: tables[0].features[1].name: is required",
        "bad.yml:12: tables[1]: must be a mapping of keys to values",
        "bad.yml:14: sets.b: must be a list",
        "bad.yml:15: platform: duplicate key, already on line 2",
    ]


def test_names_that_are_given_twice_are_reported_and_then_unknown_features(folder: Path) -> None:
    text = """\
version: 1
platform: custom
tables:
  - name: drivers
    features:
      - {name: rate}
      - {name: rate}
    keys: [{name: k}, {name: k}]
  - name: drivers
sets:
  a: ["drivers:rat", "x", "drivers:rate"]
"""
    assert problems(folder, bad=text) == [
        (
            "bad.yml:7: tables[0].features[1].name: is already the name of another feature, "
            "at bad.yml:6"
        ),
        "bad.yml:8: tables[0].keys[1].name: is already the name of another key, at bad.yml:8",
        "bad.yml:9: tables[1].name: is already the name of another table, at bad.yml:4",
    ]
    text = text.replace("      - {name: rate}\n", "", 1).replace(", {name: k}", "")
    assert problems(folder, bad=text.replace("  - name: drivers\nsets", "sets")) == [
        (
            "bad.yml:9: sets.a[0]: is not a feature of any definitions file; "
            "did you mean `drivers:rate`?"
        ),
        "bad.yml:9: sets.a[1]: must have the form <table>:<feature>",
    ]


def test_the_problems_of_all_files_are_reported(folder: Path) -> None:
    reported = problems(folder, a=headed("tables: 5"), b="a: [\n", c="", d=headed("x: 1"))
    assert [line.split(": ")[0] for line in sorted(reported)] == [
        "a.yml:3",
        "b.yml:2",
        "c.yml",
        "d.yml:3",
    ]


def test_a_table_is_defined_once_in_a_namespace_over_all_files(folder: Path) -> None:
    table = headed("namespace: n\ntables: [{name: t}]")
    other = "version: 1\nplatform: other\nnamespace: n\ntables: [{name: t}]"
    assert problems(folder, a=table, b=other) == [
        "b.yml:4: tables[0].name: is already the name of another table, at a.yml:4"
    ]


def test_a_set_may_name_features_of_another_file_of_its_namespace_only(folder: Path) -> None:
    table = "namespace: n\ntables: [{name: t, features: [{name: f}]}]"
    (folder / "a.yml").write_text(headed(table))
    (folder / "b.yml").write_text(headed('namespace: n\nsets: {s: ["t:f"]}'))
    assert FeatureSet(namespace="n", name="s", features=(FeatureRef("t", "f"),)) in list(
        source_of(folder).definitions()
    )
    assert problems(folder, c=headed('namespace: m\nsets: {s: ["t:f"]}')) == [
        "c.yml:4: sets.s[0]: is not a feature of any definitions file"
    ]


def test_a_file_that_is_no_yaml_is_named(folder: Path) -> None:
    (folder / "a.yml").write_text("a: b\n---\nc: d\n")
    reported = problems(folder)
    assert reported == [
        "a.yml:2: not valid YAML: a second document begins here; a file contains one"
    ]
    assert issubclass(RecipeSyntaxError, RecipeError)


def test_each_file_says_which_platform_its_tables_are_of(folder: Path) -> None:
    (folder / "a.yml").write_text(headed("tables: [{name: t}]"))
    (folder / "b.yml").write_text("version: 1\nplatform: other\ntables: [{name: u}]")
    source = DefinitionsSource(DefinitionsConfig(path=folder, instance="eu"))
    (page,) = pages_of(source)
    found = [entity for record in page for entity in source.map(record)]
    assert [entity.urn for entity in found] == [
        "urn:li:mlFeatureTable:(urn:li:dataPlatform:custom,eu.t)",
        "urn:li:mlFeatureTable:(urn:li:dataPlatform:other,eu.u)",
    ]
    assert found[1].aspects["dataPlatformInstance"] == {
        "platform": "urn:li:dataPlatform:other",
        "instance": "urn:li:dataPlatformInstance:(urn:li:dataPlatform:other,eu)",
    }
    assert [table.urn for table in source.coming_tables()] == [entity.urn for entity in found]


def test_what_a_path_is_called_does_not_depend_on_where_the_recipe_lies(folder: Path) -> None:
    for base in (folder, folder / "elsewhere"):
        config = DefinitionsConfig.model_validate({"path": "sub/x.yml"}, context={"base_dir": base})
        assert config.path_in_recipe == "sub/x.yml"
    assert DefinitionsConfig(path=Path("/abs/x.yml")).path_in_recipe == "/abs/x.yml"


def test_files_are_read_once_so_that_what_is_reported_beforehand_is_what_comes(
    folder: Path,
) -> None:
    (folder / "a.yml").write_text(GOOD)
    source = DefinitionsSource(DefinitionsConfig(path=folder / "a.yml"))
    (coming,) = source.coming_tables()
    (folder / "a.yml").unlink()
    ((record,),) = pages_of(source)
    assert coming.urn == list(source.map(record))[-1].urn
    source.close()
    with pytest.raises(RecipeError, match=r"a\.yml"):
        list(source.coming_tables())


def test_the_doctor_counts_what_is_there_and_tells_what_is_wrong(folder: Path) -> None:
    (folder / "a.yml").write_text(GOOD)
    (finding,) = source_of(folder).check()
    assert (finding.outcome, finding.detail) == ("ok", "1 file with 1 table and 2 features")
    (folder / "a.yml").write_text(headed("x: 1"))
    (finding,) = source_of(folder).check()
    assert finding.outcome == "failed"
    assert finding.detail.startswith("a.yml:3: x: is not a known key")
