"""The metadata of our wheel, as an index shows it: its links, its pictures and its URLs."""

import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from support.installed import output
from support.venvs import REPOSITORY

RELEASE = {
    "MLCAT_RELEASE_REPOSITORY": "https://code.example.com/team/mlcat-ingest",
    "MLCAT_RELEASE_COMMIT": "0123abc",
}
WORKFLOW = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "release.yml").read_text())


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name))


def links(page: Message) -> Iterator[tuple[str, str]]:
    """Yield the kind and the target of each link and picture of the long description."""
    body = page.get_payload()
    assert isinstance(body, str)
    for block in MarkdownIt("commonmark").enable("table").parse(body):
        for token in (block, *(block.children or ())):
            if token.type.startswith("html"):
                assert not re.search(r"\b(href|src)=", token.content)
            for attribute in ("href", "src"):
                if attribute in token.attrs:
                    yield attribute, str(token.attrs[attribute])


def build(folder: Path, variables: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "uv", "build", "--wheel", "--out-dir", str(folder)]
    settings = (f"{name}={value}" for name, value in variables.items())
    output(["env", *settings, *command], REPOSITORY)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Message:
    folder = tmp_path_factory.mktemp("release")
    build(folder, RELEASE)
    (wheel,) = folder.glob("*.whl")
    return metadata(wheel)


def test_a_wheel_of_a_clone_has_no_relative_link_and_no_address(wheel: Path) -> None:
    page = metadata(wheel)
    assert [target for _, target in links(page) if not target.startswith("http")] == []
    assert page.get_all("Project-URL") is None
    assert "# mlcat-ingest" in str(page.get_payload())


def test_links_and_pictures_of_a_release_lead_to_files_of_its_commit(released: Message) -> None:
    found = set(links(released))
    repository, commit = RELEASE.values()
    kinds = {"src": f"{repository}/raw/{commit}/", "href": f"{repository}/blob/{commit}/"}
    pages = {(kind, target.partition("#")[0]) for kind, target in found if repository in target}
    assert {kind for kind, _ in pages} == {"src", "href"}
    for kind, target in pages:
        assert (REPOSITORY / target.removeprefix(kinds[kind])).exists()
    assert [target for _, target in found if not target.startswith("http")] == []


def test_a_release_has_the_urls_of_its_repository(released: Message) -> None:
    urls = dict(url.split(", ") for url in released.get_all("Project-URL", []))
    assert set(urls) == {"Changelog", "Documentation", "Issues", "Source"}
    assert all(url.startswith(RELEASE["MLCAT_RELEASE_REPOSITORY"]) for url in urls.values())


def test_half_an_address_ends_the_build(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="MLCAT_RELEASE_REPOSITORY and MLCAT_RELEASE_COMMIT"):
        build(tmp_path, {"MLCAT_RELEASE_COMMIT": "0123abc"})


def test_the_release_workflow_gives_the_address_and_runs_pinned_actions() -> None:
    jobs = WORKFLOW["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    assert [step["env"].keys() for step in steps if "env" in step] == [RELEASE.keys()]
    actions = [step["uses"] for step in steps if "uses" in step]
    assert [
        action for action in actions if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)
    ] == []
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
