"""`mlcat-ingest evaluate` against the embedded catalog, of entities that it may not hold."""

from pathlib import Path

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.proposal import Proposal
from support.catalog_server import running_catalog
from support.fakes import group_urn, model_urn


def test_an_entity_that_is_not_in_the_catalog_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there, removed, gone, group = *map(model_urn, ("a", "b", "c")), group_urn("g")
    with running_catalog(tmp_path / "catalog.db") as catalog:
        with CatalogClient(catalog.url, "") as client:
            for urn, is_removed in ((there, False), (removed, True)):
                assert client.write([Proposal(urn, "status", {"removed": is_removed})]) == []

        def evaluate(*urns: str) -> tuple[int, str, str]:
            code = call(["evaluate", *urns, "--server", catalog.url])
            return (code, *capsys.readouterr())

        absent = f"mlcat-ingest: {gone} is not in the catalog\n"
        assert evaluate(there) == (0, f"{there}: 0 passing, 0 failing\n", "")
        assert evaluate(gone) == (1, "", absent)
        code, out, err = evaluate(gone, there, removed, group)
        assert code == 1
        assert out.splitlines()[0] == f"{there}: 0 passing, 0 failing"
        assert err == f"{absent}mlcat-ingest: {group} is not in the catalog\n"
