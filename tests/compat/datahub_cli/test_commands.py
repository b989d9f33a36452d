"""DataHub's command line against the catalog: what its users type first."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.catalog_server import RunningCatalog, running_catalog
from support.datahub_cli import DataHubCli

PLATFORM = "urn:li:dataPlatform:mlflow"
TOKEN = "secret"


def model_urn(name: str) -> str:
    return f"urn:li:mlModel:({PLATFORM},{name},PROD)"


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCatalog]:
    with running_catalog(tmp_path_factory.mktemp("catalog") / "c.db", token=TOKEN) as running:
        yield running


@pytest.fixture
def cli(catalog: RunningCatalog, tmp_path: Path) -> DataHubCli:
    return DataHubCli(f"{catalog.url}/api/gms", tmp_path, TOKEN)


def put(cli: DataHubCli, urn: str, aspect: str, value: dict[str, Any], *more: str) -> None:
    path = cli.home / "aspect.json"
    path.write_text(json.dumps(value))
    cli.run("put", "--urn", urn, "--aspect", aspect, "-d", str(path), *more)


def test_put_get_and_exists(cli: DataHubCli) -> None:
    urn = model_urn("a b/c")
    put(cli, urn, "mlModelProperties", {"description": "é", "customProperties": {"k": "v"}})
    put(cli, urn, "status", {"removed": False}, "--run-id", "by-hand")
    everything = json.loads(cli.run("get", "--urn", urn).stdout)
    assert everything["mlModelKey"] == {"platform": PLATFORM, "name": "a b/c", "origin": "PROD"}
    assert everything["mlModelProperties"] == {"description": "é", "customProperties": {"k": "v"}}
    one = json.loads(cli.run("get", "--urn", urn, "--aspect", "status", "--details").stdout)
    assert one["status"]["systemMetadata"]["runId"] == "by-hand"
    assert cli.run("exists", "--urn", urn).stdout.strip() == "true"
    assert cli.run("exists", "--urn", model_urn("nobody")).stdout.strip() == "false"
    missing = cli.run("get", "--urn", model_urn("nobody"), check=False)
    assert missing.returncode == 1
    assert "not found" in missing.stdout + missing.stderr


def test_what_is_wrong_is_reported(cli: DataHubCli) -> None:
    path = cli.home / "aspect.json"
    path.write_text(json.dumps({"description": 5}))
    reported = cli.run(
        *("put", "--urn", model_urn("x"), "--aspect", "mlModelProperties", "-d", str(path)),
        check=False,
    )
    assert reported.returncode == 1
    assert "422" in reported.stdout + reported.stderr


def test_put_platform(cli: DataHubCli) -> None:
    cli.run("put", "platform", "--name", "ours", "--display_name", "Ours", "--logo", "http://l/x")
    info = json.loads(cli.run("get", "--urn", "urn:li:dataPlatform:ours").stdout)
    assert info["dataPlatformInfo"]["displayName"] == "Ours"


def test_soft_delete_undo_and_hard_delete(cli: DataHubCli) -> None:
    urn = model_urn("leaves")
    put(cli, urn, "mlModelProperties", {"description": "d"})
    cli.run("delete", "--urn", urn, "--soft", "--force")
    assert json.loads(cli.run("get", "--urn", urn, "--aspect", "status").stdout) == {
        "status": {"removed": True}
    }
    cli.run("delete", "undo-by-filter", "--platform", "mlflow", "--force")
    assert json.loads(cli.run("get", "--urn", urn, "--aspect", "status").stdout) == {
        "status": {"removed": False}
    }
    cli.run("delete", "--urn", urn, "--hard", "--force")
    assert cli.run("exists", "--urn", urn).stdout.strip() == "false"


def test_delete_by_filter_takes_only_what_matches(cli: DataHubCli, catalog: RunningCatalog) -> None:
    gone = f"urn:li:mlFeatureTable:({PLATFORM},gone)"
    kept = "urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,kept)"
    for urn in (gone, kept):
        put(cli, urn, "mlFeatureTableProperties", {"description": "d"})
    cli.run(
        *("delete", "--entity-type", "mlFeatureTable", "--platform", "mlflow", "--hard"),
        *("--force", "--batch-size", "10"),
    )
    assert catalog.store.exists([gone, kept]) == {kept}


def test_a_deleted_tag_leaves_what_it_was_on(cli: DataHubCli) -> None:
    urn, tag = model_urn("tagged"), "urn:li:tag:goes"
    put(cli, tag, "tagProperties", {"name": "goes"})
    put(cli, urn, "globalTags", {"tags": [{"tag": tag}, {"tag": "urn:li:tag:stays"}]})
    cli.run("delete", "--urn", tag, "--hard", "--force")
    left = json.loads(cli.run("get", "--urn", urn, "--aspect", "globalTags").stdout)
    assert left == {"globalTags": {"tags": [{"tag": "urn:li:tag:stays"}]}}


def test_check(cli: DataHubCli) -> None:
    assert "'noCode': 'true'" in cli.run("check", "server-config").stdout
    cli.run("check", "restore-indices", "--urn", model_urn("asked"))
