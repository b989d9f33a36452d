"""Entities are grouped into chunks that are worth a request."""

from itertools import chain

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.read.pages import Chunker
from mlcat_ingest.pipeline.report.tally import Tally


def view(number: int) -> list[Entity]:
    """Return a table of 20 features, as a source of features yields it."""
    features = [Entity(f"urn:li:mlFeature:(p.v{number},f{at})", {}) for at in range(20)]
    table = f"urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,p.v{number})"
    return [*features, Entity(table, {})]


def test_tables_among_their_features_fill_chunks_of_their_own() -> None:
    chunker = Chunker(Tally("any"))
    entities = chain.from_iterable(map(view, range(250)))
    chunks = [*chunker.chunks(entities), *chunker.rest()]
    sizes = [len(one.entities) for one in chunks if one.entity_type == "mlFeatureTable"]
    assert sizes == [200, 50]
    assert [len(one.entities) for one in chunks if one.entity_type == "mlFeature"] == [200] * 25
