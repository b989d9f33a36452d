"""The guide for authors of sources is walked step by step, and its tables name what there is."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mlcat_ingest.errors import ProtocolMismatchError

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "source-plugins.md").read_text()
FILES = dict(re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
COMMANDS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.process
def test_the_package_of_the_guide_is_installed_run_and_proved(tmp_path: Path) -> None:
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert COMMANDS == ["pip install .\nmlcat-ingest recipe.yml\n"]
    site = tmp_path / "site"
    environment = {**os.environ, "PYTHONPATH": str(site)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", *words]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    install = run(
        *["uv", "pip", "install", "--quiet", "--offline", "--no-deps", "--target"], str(site), "."
    )
    assert install.returncode == 0, install.stderr
    ingest = run("mlcat_ingest", "recipe.yml")
    assert ingest.returncode == 4, ingest.stderr
    assert "draft could not be used: it has no description" in ingest.stderr
    proposals = json.loads((tmp_path / "proposals.json").read_text())
    assert {one["entityUrn"].split(",")[1] for one in proposals} == {"fraud", "churn"}
    prove = run(
        *["pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "tests/test_source.py"]
    )
    assert prove.returncode == 0, prove.stdout


class Session:
    """Gives the pages of a listing by their tokens, and after the last one the second again."""

    def __init__(self, *, ends: bool) -> None:
        self._pages = {
            None: {"models": [{"name": "fraud"}], "next_page_token": "2"},
            "2": {"models": [{"name": "churn"}], **({} if ends else {"next_page_token": "2"})},
        }

    def get(self, url: str, params: dict[str, str]) -> Any:
        assert url == "http://models"
        return SimpleNamespace(json=lambda: self._pages[params.get("page_token")])


def test_the_listing_of_the_guide_is_read_to_its_end() -> None:
    [code] = re.findall(
        r"^```python\n([^`]*?paging import.*?)^```$", PAGE, re.DOTALL | re.MULTILINE
    )
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - the code of our own page
    pages = names["list_models"](Session(ends=True), "http://models")
    assert list(pages) == [[{"name": "fraud"}], [{"name": "churn"}]]
    with pytest.raises(ProtocolMismatchError, match=r"returned the same page token"):
        list(names["list_models"](Session(ends=False), "http://models"))
