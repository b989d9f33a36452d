"""Two pipelines and a person write the same entities of a real catalog at the same time."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.client.config import RestSinkConfig
from mlcat_ingest.client.rest.catalog import RestCatalog
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.errors import AspectChangedError
from mlcat_ingest.metadata.proposal import Entity, Proposal
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from support.catalog_server import running_catalog
from support.fakes import FakeSource, group_urn, model_urn
from support.recipes import a_recipe

HOME = "mlModelProperties"
COUNT = 120
URNS = [model_urn(f"r{n}") for n in range(COUNT)]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[str]:
    with running_catalog(tmp_path / "catalog.db") as running:
        yield running.url


def message_of(writer: str, entry: str) -> list[Entity]:
    """What a source of `writer` says of every entity: entries of its own, and shared ones."""
    return [
        Entity(
            urn,
            {
                "globalTags": {"tags": [{"tag": f"urn:li:tag:{writer}-{entry}"}]},
                HOME: {
                    "groups": [group_urn("shared"), group_urn(f"{writer}-{entry}")],
                    "customProperties": {f"{writer}.{entry}": "x", "shared": "x"},
                },
            },
        )
        for urn in URNS
    ]


def ingest(url: str, writer: str, entry: str) -> Report:
    sink = RestCatalog(RestSinkConfig.model_validate({"server": url, "token": ""}))
    source = FakeSource([message_of(writer, entry)])
    return PipelineRun([source], sink, RunOptions(a_recipe(writer))).execute()


@contextmanager
def at_once(*works: Callable[[], None]) -> Iterator[None]:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()


def both(url: str, entry: str, *more: Callable[[], None]) -> dict[str, Report]:
    """Ingest with two recipes at the same time."""
    reports: dict[str, Report] = {}

    def work(writer: str) -> None:
        reports[writer] = ingest(url, writer, entry)

    with at_once(lambda: work("one"), lambda: work("two"), *more):
        pass
    for report in reports.values():
        report.raise_for_failure()
        assert report.exit_code == 0
    return reports


def stored(url: str) -> Mapping[str, Mapping[str, Any]]:
    with CatalogClient(url, "") as client:
        found = client.read_many(URNS, [HOME, "globalTags"])
    return {
        urn: {name: one.value for name, one in aspects.items()} for urn, aspects in found.items()
    }


def check(url: str, entry: str, *, edited: Collection[str] = ()) -> None:
    found = stored(url)
    assert len(found) == COUNT
    for urn, aspects in found.items():
        groups = set(aspects[HOME]["groups"])
        assert groups == {
            group_urn("shared"),
            group_urn(f"one-{entry}"),
            group_urn(f"two-{entry}"),
            *([group_urn("people")] if urn in edited else []),
        }
        custom = {
            key for key in aspects[HOME]["customProperties"] if not key.startswith("mlcat.applied.")
        }
        assert custom == {"shared", f"one.{entry}", f"two.{entry}"}
        tags = {one["tag"] for one in aspects["globalTags"]["tags"]}
        assert tags == {f"urn:li:tag:one-{entry}", f"urn:li:tag:two-{entry}"}


def a_person_adds_a_group(url: str) -> None:
    with CatalogClient(url, "") as client:
        for urn in URNS[::2]:
            for _ in range(100):
                held = client.read_many([urn], [HOME])[urn][HOME]
                groups = [*held.value["groups"], group_urn("people")]
                header = {"If-Version-Match": str(held.version)}
                try:
                    client.emit(
                        Proposal(urn, HOME, {**held.value, "groups": groups}, "UPSERT", header)
                    )
                    break
                except AspectChangedError:
                    continue
            else:
                raise AssertionError(f"{urn} never kept still")


def test_two_pipelines_and_a_person_lose_nothing_of_each_other(catalog: str) -> None:
    both(catalog, "a")
    check(catalog, "a")
    both(catalog, "b", lambda: a_person_adds_a_group(catalog))
    check(catalog, "b", edited=URNS[::2])
    again = both(catalog, "b")
    assert {report.proposals_sent for report in again.values()} == {0}
