"""What an extra brings, and what is said where it is missing."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mlcat_ingest.core import environment
from mlcat_ingest.core.environment import MODULES, require_extra
from mlcat_ingest.errors import MissingExtraError
from mlcat_ingest.workflows.resolve import SOURCES, source_class

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
MODULE_OF = {
    "google-re2": "re2",
    "graphql-core": "graphql",
    "grpcio": "grpc",
    "markdown-it-py": "markdown_it",
    "prometheus-client": "prometheus_client",
    "protobuf": "google.protobuf",
    "scikit-learn": "sklearn",
}


def modules_of(extra: str) -> set[str]:
    """The modules that the distribution promises with an extra."""
    found: set[str] = set()
    for requirement in EXTRAS[extra]:
        name, _, others = re.split(r"[<>]", requirement)[0].rstrip("]").partition("[")
        if name == PROJECT["name"]:
            found = found.union(*map(modules_of, others.split(",")))
        else:
            found.add(MODULE_OF.get(name, name))
    return found


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - {"airflow", "all", "datahub", "dev"}))
def test_the_modules_of_an_extra_are_those_that_it_installs(extra: str) -> None:
    assert set(MODULES[extra]) == modules_of(extra)


def test_all_has_every_extra_that_holds_no_peer_down() -> None:
    # DataHub's library is in the environment of who uses the source in it.
    assert set(MODULES) == set(EXTRAS) - {"airflow", "all", "datahub", "dev"}
    listed = sorted({*MODULES, "airflow"} - {"mlflow", "demo-train"})
    assert EXTRAS["all"] == [f"mlcat-ingest[{','.join(listed)}]"]


@pytest.mark.parametrize("extra", MODULES)
def test_one_missing_module_is_reported_with_the_command(
    extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, MODULES[extra][-1], None)
    with pytest.raises(MissingExtraError) as reported:
        require_extra(extra, "this")
    assert str(reported.value) == (
        f"this needs the optional packages of the extra '{extra}'"
        f" (pip install 'mlcat-ingest[{extra}]')"
    )


def test_a_module_whose_package_is_missing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "MODULES", {"feast": ("nothing_of_this_name.protobuf",)})
    with pytest.raises(MissingExtraError):
        require_extra("feast", "this")


@pytest.mark.process
def test_what_is_looked_for_is_not_imported() -> None:
    script = (
        "import sys; from mlcat_ingest.core.environment import MODULES, require_extra\n"
        "require_extra('catalog', 'this'); print(*set(MODULES['catalog']) & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout == b"\n"


@pytest.mark.parametrize("name", [name for name, one in SOURCES.items() if one.extra])
def test_a_source_names_its_extra_before_it_is_imported(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = SOURCES[name].extra
    assert extra is not None
    monkeypatch.setitem(sys.modules, MODULES[extra][0], None)
    with pytest.raises(MissingExtraError, match=f"the source {name} needs"):
        source_class(name)
