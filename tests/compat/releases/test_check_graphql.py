"""The check of our GraphQL queries finds what a schema lacks."""

from pathlib import Path

import pytest
from graphql import print_schema

from compat.releases.check_graphql import main
from mlcat_ingest.catalog.web.graphql.schema import executable_schema


def check(folder: Path, capsys: pytest.CaptureFixture[str], *changes: str) -> tuple[int, list[str]]:
    """Check against the embedded catalog's schema, changed, in two files."""
    text = print_schema(executable_schema())
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    at = text.index("\ninput ")
    (folder / "a.graphql").write_text(text[:at])
    (folder / "b.graphql").write_text(text[at:])
    status = main([str(folder)])
    return status, [line for line in capsys.readouterr().out.splitlines() if ": fits" not in line]


def test_every_query_fits_the_embedded_catalog(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, capsys) == (0, [])


def test_a_field_and_a_variable_that_a_schema_lacks_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = ("featureNamespace", "namespace", "filterNonLatestVersions", "latestOnly")
    status, lines = check(tmp_path, capsys, *changes)
    assert status == 1
    (selection,) = [line for line in lines if line.startswith("interface: ")]
    assert selection.startswith("interface: mlFeature: Cannot query field 'featureNamespace'")
    searches = [line for line in lines if line.startswith("client: ")]
    assert len(searches) == 7
    assert all("'filterNonLatestVersions' is not defined" in line for line in searches)


@pytest.mark.parametrize("text", [None, "type {"])
def test_a_folder_without_a_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    if text is not None:
        (tmp_path / "a.graphql").write_text(text)
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("no schema to check against: ")
