"""One registry comes out the same, entity for entity, by whichever way a recipe names it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.source import FeastSource
from support.feast import REGISTRY
from support.feast_transports import database_of, grpc_server, listing, objects_of
from support.reading import records_of
from support.s3 import s3_server

Options = dict[str, Any]
Way = Callable[[Path], AbstractContextManager[Options]]


@contextmanager
def as_file(folder: Path) -> Iterator[Options]:
    text = f"project: rides\nregistry: {REGISTRY}\n"
    (folder / "feature_store.yaml").write_text(text)
    yield {}


@contextmanager
def as_database(folder: Path) -> Iterator[Options]:
    path = folder / "registry.sqlite"
    yield {"registry": database_of(objects_of(str(REGISTRY)), path)}


@contextmanager
def in_s3(_folder: Path) -> Iterator[Options]:
    with s3_server({"registry.db": REGISTRY.read_bytes()}) as url:
        yield {"registry": "s3://lake/registry.db", "s3": {"endpoint_url": url}}


@contextmanager
def in_a_store(_folder: Path) -> Iterator[Options]:
    system = fsspec.filesystem("memory")
    system.pipe_file("/lake/registry.db", REGISTRY.read_bytes())
    try:
        yield {"registry": "memory://lake/registry.db"}
    finally:
        system.rm("/lake", recursive=True)


@contextmanager
def over_grpc(_folder: Path) -> Iterator[Options]:
    with grpc_server(lambda method, *_: listing(method)) as port:
        yield {"registry": {"registry_type": "remote", "path": f"127.0.0.1:{port}"}}


WAYS = [as_database, in_s3, in_a_store, over_grpc]


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret-key")


def entities_of(options: Options, folder: Path) -> list[Entity]:
    given = {"repo_path": folder, "label_views": True, "server_id": "the-registry", **options}
    source = FeastSource(FeastConfig.model_validate(given))
    try:
        found = [entity for record in records_of(source) for entity in source.map(record)]
    finally:
        source.close()
    return sorted(found, key=lambda entity: entity.urn)


@pytest.mark.parametrize("way", WAYS)
def test_what_becomes_of_a_registry_is_the_same_by_every_way(way: Way, tmp_path: Path) -> None:
    with as_file(tmp_path) as options:
        expected = entities_of(options, tmp_path)
    with way(tmp_path) as options:
        found = entities_of(options, tmp_path)
    assert [entity.urn for entity in found] == [entity.urn for entity in expected]
    assert found == expected
    assert len(found) > 80


@pytest.mark.parametrize("way", WAYS)
def test_a_registry_has_one_identity_by_every_way(way: Way, tmp_path: Path) -> None:
    def key_of(options: Options) -> str:
        source = FeastSource(FeastConfig.model_validate({"repo_path": tmp_path, **options}))
        try:
            return source.keys()[0]
        finally:
            source.close()

    with as_file(tmp_path) as options:
        expected = key_of(options)
    with way(tmp_path) as options:
        assert key_of(options) == expected
    assert str(REGISTRY) not in expected


@pytest.mark.parametrize("way", [over_grpc, as_database])
def test_a_recipe_ingests_and_the_doctor_checks_by_such_a_way(
    way: Way, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import yaml

    with way(tmp_path) as options:
        recipe = {
            "name": "feast",
            "source": {"type": "feast", "config": options},
            "sink": {"type": "file", "config": {"path": "out.jsonl"}},
        }
        (tmp_path / "recipe.yml").write_text(yaml.safe_dump(recipe))
        assert call([str(tmp_path / "recipe.yml"), "-q"]) == 0
        assert call(["check", str(tmp_path / "recipe.yml")]) == 0
    written = (tmp_path / "out.jsonl").read_text()
    assert "urn:li:mlFeature:(rides.driver_hourly_stats,conv_rate)" in written
    assert "rides: 3 entities, 19 data sources" in capsys.readouterr().out
