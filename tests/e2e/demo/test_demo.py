"""`mlcat-ingest demo`: what it reports is what the MLflow store holds, and it ends cleanly."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

from mlcat_ingest.cli.demo import HERE
from mlcat_ingest.sources.mlflow.read.checks import TESTED
from support.commands import ended
from support.mlflow_databases import seeded_server
from support.page_blocks import blocks_of, difference, matches
from support.venvs import REPOSITORY

README = (REPOSITORY / "README.md").read_text()

END_S = 60
TRAINED_S = 240

MACHINES_OWN = {"tags", "logged_model_tags"}
"""Tables whose rows a repository around the training adds to."""
NAMED = {
    "experiments": "name",
    "latest_metrics": "key",
    "logged_models": "name",
    "logged_model_tags": "tag_key",
    "params": "key",
    "registered_model_aliases": "alias",
    "tags": "key",
}
"""Tables, and the column that tells what their rows are."""
PROMPTS = "WHERE key = 'mlflow.prompt.is_prompt'"
"""The condition on the tags of registered models that are prompts."""


@contextmanager
def demo(folder: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-m", "mlcat_ingest", "demo", "--dir", folder.name, *options],
        cwd=folder.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "HOME": str(folder.parent)},
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def until(process: "subprocess.Popen[str]", start: str) -> list[str]:
    """Read what the process prints up to the line that begins with `start`."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if line.startswith(start):
            return lines
    raise AssertionError(f"it ended early:\n{lines}\n{process.communicate()[1]}")


def counts_of_store(database: Path) -> dict[str, int]:
    with closing(sqlite3.connect(database)) as connection:
        (runs,) = connection.execute("SELECT count(*) FROM runs").fetchone()
        (experiments,) = connection.execute("SELECT count(*) FROM experiments").fetchone()
        named = f"FROM {{}} WHERE name NOT IN (SELECT name FROM registered_model_tags {PROMPTS})"
        registered, versions = (
            connection.execute(f"SELECT count(*) {named.format(table)}").fetchone()[0]
            for table in ("registered_models", "model_versions")
        )
    return {"mlModel": runs + versions, "mlModelGroup": experiments + registered}


@dataclass(frozen=True)
class First:
    """What the first demo in a folder printed up to its last line, the page, how it ended."""

    folder: Path
    text: str
    page: str
    status: int


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> First:
    folder = tmp_path_factory.mktemp("demo") / "mlcat-demo"
    with demo(folder) as process:
        text = "\n".join(until(process, "Open "))
        address = re.search(r"https?://[^\s,)]+", text)
        assert address is not None
        with urllib.request.urlopen(address[0], timeout=10) as page:
            shown = page.read().decode()
        os.killpg(process.pid, signal.SIGINT)
        return First(folder, text, shown, process.wait(END_S))


def test_it_ingests_and_serves(first: First) -> None:
    assert first.status == 0
    assert "wine-classifier" in first.page
    reported = re.findall(r"^ +(ml\w*) +(\d+) created", first.text, re.MULTILINE)
    created = {kind: int(count) for kind, count in reported}
    for kind, count in (("service", 1), ("api", 2), ("document", 1)):
        assert re.search(rf"^ +{kind} +{count} created", first.text, re.MULTILINE)
    of_mlflow = {kind: count for kind, count in created.items() if kind.startswith("mlModel")}
    assert of_mlflow == counts_of_store(first.folder / "mlflow.db")
    assert created["mlModel"] >= 3
    assert created["mlFeatureTable"] == 3
    tests = re.search(r"(\d+) entities evaluated by the service: (\d+) results passing", first.text)
    assert tests is not None
    assert int(tests[1]) == sum(created.values()) - created["mlPrimaryKey"]
    assert int(tests[2]) > 0
    assert "verdicts shown, incidents opened: 8 entities" in first.text


def test_the_readme_shows_what_it_prints(first: First) -> None:
    (shown,) = [block.text for block in blocks_of(README) if block.language == "text"]
    # The last line is read up to its address.
    printed = first.text.replace(str(first.folder.parent), "/home/you/mlcat-ingest")
    printed = re.sub(r"(127\.0\.0\.1):\d+", r"\1:8765", f"{printed}\n")
    assert matches(shown, printed), difference(shown, printed)


def test_models_are_linked_to_the_features_that_feast_was_asked_for(first: First) -> None:
    with closing(sqlite3.connect(first.folder / "mlflow.db")) as connection:
        (asked,) = connection.execute(
            "SELECT count(*) FROM tags WHERE key = 'feast.feature_refs'"
        ).fetchone()
        (versions,) = connection.execute(
            "SELECT count(*) FROM model_versions JOIN tags ON run_id = run_uuid"
            " WHERE key = 'feast.feature_refs'"
        ).fetchone()
    assert (asked, versions) == (5, 1)
    linked = asked + versions
    assert f"{linked} models linked ({linked} by feast.feature_refs)" in first.text


def test_verify_finds_all_of_it_in_the_catalog(first: First) -> None:
    command = [sys.executable, "-m", "mlcat_ingest", "verify", "recipe.yml", "--json"]
    facts = json.loads(ended(command, cwd=first.folder, timeout=END_S).stdout)
    stored = counts_of_store(first.folder / "mlflow.db")
    assert facts["compared"] >= stored["mlModel"] + stored["mlModelGroup"]
    assert [facts[one] for one in ("missing", "stale", "to_be_removed", "not_searchable")] == [
        0
    ] * 4
    assert facts["found"] == facts["stored"] > 0


def test_a_second_time_finds_nothing_to_write(first: First) -> None:
    with demo(first.folder, "--no-serve") as process:
        out, errors = process.communicate(timeout=END_S)
    assert process.returncode == 0, errors
    assert re.search(r"^ +proposals +0 sent$", out, re.MULTILINE)
    # It prints no address that nothing serves.
    shown = out.partition("Try next:")[2]
    database = re.search(r"mlcat-ingest catalog serve --db (\S+)", shown)
    assert database is not None
    assert Path(first.folder.parent, database[1]).exists()
    assert "http://" not in shown


def test_the_last_step_that_it_prints_ingests_another_mlflow_server(
    first: First, tmp_path: Path
) -> None:
    with demo(first.folder) as process, seeded_server("ours", tmp_path / "store") as (mlflow, _):
        arguments = until(process, "Then ")[-1].partition(": mlcat-ingest ")[2]
        arguments = arguments.replace("http://localhost:5000", mlflow.url)
        command = [sys.executable, "-m", "mlcat_ingest", *arguments.split()]
        done = ended(command, cwd=tmp_path, timeout=END_S)
    assert re.search(r"^ +mlModelGroup +[1-9]\d* created", done.stdout, re.MULTILINE)


def test_a_terminated_demo_leaves_no_catalog_behind(first: First) -> None:
    with demo(first.folder) as process:
        until(process, "Open ")
        process.terminate()
        process.wait(END_S)
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "mlcat-demo"
    with demo(folder, "--train", "--no-serve") as process:
        out, errors = process.communicate(timeout=TRAINED_S)
    assert process.returncode == 0, errors
    assert [line for line in errors.splitlines() if " of 3: " in line] == [
        "  1 of 3: wine-cultivars …",
        "  2 of 3: breast-cancer-screening …",
        "  3 of 3: diabetes-progression …",
    ]
    assert "6 models linked" in out
    return folder


def test_the_store_that_comes_along_is_like_one_that_is_trained_now(
    first: First, trained: Path
) -> None:
    if not version("mlflow").startswith(f"{TESTED['server'][-1]}."):
        pytest.skip("the demo's store is one of the newest MLflow that is tested")
    how = "make it anew with tests/e2e/demo/make_store.py"
    shipped, made = first.folder / "mlflow.db", trained / "mlflow.db"
    assert schema_of(shipped) == schema_of(made), how
    assert shape_of(shipped) == shape_of(made), how


def test_the_store_that_comes_along_is_small_and_names_no_machine(first: First) -> None:
    assert (HERE / "mlflow.db.gz").stat().st_size < 100_000
    text = (first.folder / "mlflow.db").read_bytes()
    for place in (b"/home/", b"/root/", b"/tmp/", b"/work/", b"127.0.0.1", b"file:", b".git"):
        assert place not in text


def test_a_store_of_another_kind_is_not_trained_over(first: First) -> None:
    with demo(first.folder, "--train", "--no-serve") as process:
        _, errors = process.communicate(timeout=END_S)
    assert process.returncode == 2
    assert "another folder with --dir" in errors


def schema_of(database: Path) -> dict[str, object]:
    """Tell tables with their columns, and indexes; the texts differ, as MLflow sorts no set."""
    with closing(sqlite3.connect(database)) as connection:
        made = connection.execute("SELECT type, name FROM sqlite_master ORDER BY 1, 2").fetchall()
        schema: dict[str, object] = {f"{kind} {name}": None for kind, name in made}
        for kind, name in made:
            if kind == "table":
                columns = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
                schema[f"table {name}"] = columns
        revision = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        return {**schema, "revision": revision}


def shape_of(database: Path) -> dict[str, object]:
    """Count the rows of each table, and name what runs and models have, but for its values."""
    with closing(sqlite3.connect(database)) as connection:
        names = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        shape: dict[str, object] = {
            table: connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]
            for (table,) in connection.execute(names).fetchall()
            if table not in MACHINES_OWN
        }
        for table, key in NAMED.items():
            statement = f"SELECT {key}, count(*) FROM {table} GROUP BY 1 ORDER BY 1"
            rows = connection.execute(statement).fetchall()
            shape[f"{table}.{key}"] = [row for row in rows if ".source.git." not in row[0]]
    return shape
