"""Our wheel resolved beside programs in the same environment. Nothing is installed."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.version import Version

from support.installed import skip_without_index

PYTHON = "3.11"
"""On 3.13 no TensorFlow goes with the protobuf of MLflow 2.9."""
TRAINING = ("tensorflow", "pytorch-lightning", "mlflow==2.9.2")


@dataclass(frozen=True)
class Row:
    """Extras of ours, what is beside them, and the oldest versions that may be chosen of it."""

    extras: str
    beside: tuple[str, ...] = ()
    at_least: tuple[tuple[str, str], ...] = ()
    python: str = PYTHON

    def __str__(self) -> str:
        return " ".join((f"[{self.extras}]", *self.beside, self.python))


DATAHUB = (("acryl-datahub", "1.7"),)
BOTH = ("", "catalog,feast")
"""The connector alone, and what an installation adds most."""

ROWS = [
    Row("all"),
    Row("all", python="3.14"),
    *(
        Row(extras, (f"mlflow~={release}.0",))
        for extras in BOTH
        for release in ("2.9", "2.16", "2.22", "3.0", "3.5", "3.10", "3.17")
    ),
    *(Row("mlflow", (f"mlflow~={release}.0",)) for release in ("3.10", "3.17")),
    *(
        Row(extras, (f"apache-airflow~={release}.0", *mlflow))
        for extras in BOTH
        for release in ("2.11", "3.0", "3.1", "3.2", "3.3")
        for mlflow in ((), ("mlflow~=3.17.0",))
    ),
    Row("all", ("apache-airflow~=3.0.0",)),
    *(
        Row("catalog,feast", (f"feast~={release}.0",))
        for release in ("0.40", "0.50", "0.60", "0.63", "0.67")
    ),
    *(Row("datahub", (f"acryl-datahub~={release}.0",)) for release in ("1.4", "1.5", "1.6", "1.7")),
    *(Row(extras, ("acryl-datahub",), DATAHUB) for extras in (*BOTH, "mlflow", "all")),
    *(
        Row(extras, ("acryl-datahub[mlflow]",), (*DATAHUB, ("mlflow-skinny", "2.20")))
        for extras in (*BOTH, "all")
    ),
    Row("catalog,feast", ("acryl-datahub[mlflow,feast,sagemaker]",), (*DATAHUB, ("feast", "0.47"))),
    Row(
        "airflow",
        ("acryl-datahub-airflow-plugin[airflow3]",),
        (*DATAHUB, ("apache-airflow", "3.3")),
    ),
]


def compiled(
    requirements: Sequence[str], *options: str, python: str = PYTHON
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header"]
    return subprocess.run(
        [*command, "--no-annotate", "--python-version", python, *options, "-"],
        input="\n".join(requirements),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def versions(done: "subprocess.CompletedProcess[str]") -> dict[str, str]:
    """Return the versions that an installation would choose, by name."""
    skip_without_index(done.stderr)
    assert done.returncode == 0, done.stderr
    chosen = (line.partition("==") for line in done.stdout.splitlines() if "==" in line)
    return {name: version for name, _, version in chosen}


def ours(wheel: Path, extras: str) -> str:
    return f"mlcat-ingest[{extras}] @ {wheel.as_uri()}"


Resolutions = Callable[[Row], dict[str, str]]


@pytest.fixture(scope="module")
def resolved(wheel: Path, request: pytest.FixtureRequest) -> Iterator[Resolutions]:
    """All rows that were asked for, four at a time: they wait for the index."""
    cases = (getattr(item, "callspec", None) for item in request.session.items)
    rows = [case.params["row"] for case in cases if case and "row" in case.params]
    with ThreadPoolExecutor(4) as pool:
        running = {
            row: pool.submit(compiled, [ours(wheel, row.extras), *row.beside], python=row.python)
            for row in rows
        }
        yield lambda row: versions(running[row].result())


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_an_environment_has_versions_for_both(row: Row, resolved: Resolutions) -> None:
    chosen = resolved(row)
    assert "orjson" in chosen
    old = {
        name: chosen[name] for name, least in row.at_least if Version(chosen[name]) < Version(least)
    }
    assert old == {}


def test_mlflow_does_not_go_with_datahubs_source_for_it(wheel: Path) -> None:
    beside = compiled([ours(wheel, "mlflow"), "acryl-datahub[mlflow]>=1.7"])
    if "No solution found" not in beside.stderr:
        pytest.fail(f"`all` may have `mlflow` again: {versions(beside)}")
    assert "mlflow-skinny" in beside.stderr


def test_nothing_moves(wheel: Path, tmp_path: Path) -> None:
    without = versions(compiled(TRAINING))
    assert {requirement.partition("==")[0] for requirement in TRAINING} <= set(without)
    # As they are installed already: a release that appears in between moves nothing either.
    installed = tmp_path / "installed.txt"
    installed.write_text("\n".join(f"{name}=={version}" for name, version in without.items()))
    alone = f"mlcat-ingest @ {wheel.as_uri()}"
    with_us = versions(compiled([*TRAINING, alone], "--constraint", str(installed)))
    assert {name: with_us.get(name) for name in without} == without
    assert "orjson" in with_us
