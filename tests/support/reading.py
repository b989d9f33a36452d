"""What a source yields, as tests look at it."""

from collections.abc import Iterator, Sequence

from mlcat_ingest.sources.base import Finished, Page, ReadRequest, RecordT, Source

ALL = ReadRequest()


def pages_of(source: Source[RecordT], request: ReadRequest = ALL) -> Iterator[Sequence[RecordT]]:
    """Yield the records of each page."""
    for page in source.read(request):
        if isinstance(page, Page):
            yield page.records


def records_of(source: Source[RecordT], request: ReadRequest = ALL) -> Iterator[RecordT]:
    """Yield the records of all pages."""
    for records in pages_of(source, request):
        yield from records


def finished_of(source: Source[RecordT], request: ReadRequest = ALL) -> Finished:
    """Return how the one partition of `source` ends."""
    (finished,) = [one for one in source.read(request) if isinstance(one, Finished)]
    return finished
