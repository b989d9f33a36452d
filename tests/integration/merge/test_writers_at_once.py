"""Two pipelines and a person write the same entities of a real catalog at the same time."""

import json
import threading
import urllib.error
import urllib.request
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
from support.fake_service import Answer, Asked, fake_service
from support.fakes import FakeSource, group_urn, model_urn
from support.recipes import a_recipe

pytestmark = pytest.mark.integration

HOME = "mlModelProperties"
COUNT = 120
URNS = [model_urn(f"r{n}") for n in range(COUNT)]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[str]:
    with running_catalog(tmp_path / "catalog.db") as running:
        yield running.url


@pytest.fixture
def deaf(catalog: str) -> Iterator[str]:
    """The same catalog, behind something that drops the conditions of every proposal."""
    with fake_service() as service:

        def forward(asked: Asked) -> Answer:
            body = asked.body
            if asked.path.startswith("/aspects?"):
                sent = asked.json()
                for proposal in sent["proposals"]:
                    proposal.pop("headers", None)
                body = json.dumps(sent).encode()
            request = urllib.request.Request(
                catalog + asked.path,
                data=body or None,
                headers={"Content-Type": "application/json"},
                method=asked.method,
            )
            try:
                with urllib.request.urlopen(request) as reply:
                    return Answer(reply.status, json.loads(reply.read() or b"{}"))
            except urllib.error.HTTPError as error:
                with error:
                    return Answer(error.code, json.loads(error.read() or b"{}"))

        for method in ("GET", "POST"):
            service.on(method, "/", forward)
            service.on(method, "/config", forward)
        yield service.server


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
    return PipelineRun([source], sink, RunOptions(a_recipe(writer), mask=str)).execute()


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


def test_two_pipelines_lose_nothing_of_each_other(catalog: str) -> None:
    first = both(catalog, "a")
    check(catalog, "a")
    created = sum(report.entities["mlModel"].created for report in first.values())
    updated = sum(report.entities["mlModel"].updated for report in first.values())
    assert created + updated == 2 * COUNT
    both(catalog, "b")
    check(catalog, "b")
    again = both(catalog, "b")
    assert {report.proposals_sent for report in again.values()} == {0}


def test_what_a_person_adds_meanwhile_is_there_afterwards(catalog: str) -> None:
    both(catalog, "a")
    both(catalog, "b", lambda: a_person_adds_a_group(catalog))
    check(catalog, "b", edited=URNS[::2])


def test_where_versions_are_not_checked_the_history_puts_back_what_was_lost(
    catalog: str, deaf: str
) -> None:
    first = both(deaf, "a")
    check(catalog, "a")
    second = both(deaf, "b")
    check(catalog, "b")
    for report in (*first.values(), *second.values()):
        assert report.unverified == 0


def test_an_aspect_that_cannot_be_empty_is_deleted_in_the_catalog(catalog: str) -> None:
    version: dict[str, Any] = {
        "versionSet": "urn:li:versionSet:(x,mlModel)",
        "version": {"versionTag": "1"},
        "sortId": "0001",
    }

    def run(fresh: dict[str, Any]) -> Report:
        sink = RestCatalog(RestSinkConfig.model_validate({"server": catalog, "token": ""}))
        entity = Entity(URNS[0], {"versionProperties": fresh, HOME: {"name": "n"}})
        return PipelineRun(
            [FakeSource([[entity]])], sink, RunOptions(a_recipe("one"), mask=str)
        ).execute()

    assert run(version).exit_code == 0
    assert run(dict.fromkeys(version)).exit_code == 0
    with CatalogClient(catalog, "") as client:
        assert set(client.read_many([URNS[0]], ["versionProperties", HOME])[URNS[0]]) == {HOME}
    assert run(dict.fromkeys(version)).proposals_sent == 0
