"""The page of measurements is what the benchmark printed, and the benchmark prints such rows."""

import re
import sys

import pytest

from benchmarks.make_page import MEASURED, PAGE, TEMPLATE, page, tables
from support.commands import ended
from support.services import postgres_database

BENCHMARK = MEASURED.with_name("bench_mlflow.py")
INSTALLATION = PAGE.with_name("installation.md").read_text()
README = (PAGE.parents[2] / "README.md").read_text()
PRINTED = tables(MEASURED.read_text())


def names(table: str) -> list[str]:
    """Return the first column of a table."""
    return re.findall(r"^\| ([^|-][^|]*?) \|", table, re.MULTILINE)


def test_the_page_is_the_template_with_what_was_printed() -> None:
    assert PAGE.read_text() == page()


def test_the_template_has_no_measurement() -> None:
    text = re.sub(r"^```.*?^```$", "", TEMPLATE.read_text(), flags=re.MULTILINE | re.DOTALL)
    units = r"(s|ms|MiB|\u00d7|%|times|requests|runs a second|a second)"
    # Of what a lifelike store has, and of the kinds of entities in a catalog.
    shares = {"30 %", "10 %", "60 %", "35 %", "5 %"}
    assert {one[0] for one in re.finditer(rf"\b\d[\d,.]* {units}(?!\w)", text)} <= shares


def test_the_installation_page_has_the_sizes_that_were_printed() -> None:
    shown = re.findall(r"\| (?:`(\w+)`)? ?\| [^|]+ \| (\d+) \| (\d+ MiB) \|", INSTALLATION)
    rows = dict(re.findall(r"^\| (.+?) \| (.+?) \|", PRINTED["install"], re.MULTILINE))
    printed = {
        extra.strip("`"): (rows[f"{key}, packages"], rows[f"{key}, size"])
        for key in {name.rpartition(",")[0] for name in rows if "," in name}
        for extra in [key.removeprefix("no extra").removeprefix("extra ")]
    }
    assert {extra: (number, size) for extra, number, size in shown}.items() <= printed.items()
    assert len(shown) == 4


def test_the_readme_has_the_cpu_of_a_run_that_was_printed() -> None:
    shown = re.findall(r"about ([\d.]+) ms of CPU a run, which is (\d+) s for 10,000", README)
    [ms] = re.findall(r"CPU a run \| ([\d.]+) ms", PRINTED["lifelike_sqlite"])
    assert shown == [(f"{float(ms):.1f}", f"{float(ms) * 10:.0f}")]


@pytest.mark.integration
@pytest.mark.timeout(900)
@pytest.mark.parametrize("database", ["postgresql", None])
def test_the_benchmark_prints_these_rows(database: str | None) -> None:
    if database:
        with postgres_database():
            parts = [database]  # there is one
    else:
        parts = ["server_units", "lifelike_sqlite", "http", "datahub", "sqlite", "profile"]
        parts += ["versions", "features", "catalog"]
    command = [sys.executable, str(BENCHMARK), "--runs", "50", "--rounds", "1", "--settle", "0"]
    command += ["--workers", "1", "--parts", ",".join(parts)]
    printed = tables(ended(command).stdout)
    assert list(printed) == ["all", *parts]
    for part in parts:
        assert names(printed[part]) == names(PRINTED[part])
