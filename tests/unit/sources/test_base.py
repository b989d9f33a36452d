"""What a source that implements no more than it has to says of the rest."""

from collections.abc import Iterator

import pytest

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.base import Finished, Page, ReadRequest, Source, SourceRecord


class Smallest(Source[SourceRecord]):
    def read(self, request: ReadRequest) -> Iterator[Page[SourceRecord] | Finished]:
        del request
        yield Page([])

    def map(self, record: SourceRecord) -> list[Entity]:
        del record
        return []

    def close(self) -> None:
        """Nothing is open."""


class Unnamed(SourceRecord):
    """A record that says nothing of its version."""


def test_three_methods_make_a_source() -> None:
    source = Smallest()
    assert source.capabilities == frozenset()
    assert [*source.missing("p", []), *source.coming_tables(), *source.shards()] == []
    assert (source.traffic.requests_made(), source.traffic.pending_request()) == (0, None)
    assert [(one.outcome, one.detail) for one in source.check()] == [
        ("warning", "Smallest does not implement checks")
    ]
    assert Unnamed().record_version is None


def test_a_source_without_one_of_them_cannot_be_made() -> None:
    class Silent(Smallest):
        close = Source.close

    with pytest.raises(TypeError, match="abstract method"):
        Silent()
