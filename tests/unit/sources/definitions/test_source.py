"""What every feature source does with the definitions of its store."""

from collections.abc import Iterator, Sequence

import pytest

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import InvalidUrnError, RecipeError, RecordError
from mlcat_ingest.links.index import FeatureSet
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.recipe.values import PatternFilter
from mlcat_ingest.sources.base import (
    FeaturesOnly,
    Finished,
    NullState,
    Partition,
    PartitionState,
    ReadRequest,
    Unlisted,
)
from mlcat_ingest.sources.definitions import source as module
from mlcat_ingest.sources.definitions.source import FeatureSource
from mlcat_ingest.sources.definitions.tables import (
    Broken,
    DatasetPlace,
    Definition,
    Feature,
    FeatureScope,
    FeatureTable,
    Key,
    map_table,
)
from mlcat_ingest.sources.options import FeatureStoreConfig
from support.reading import finished_of, pages_of


class FakeSource(FeatureSource):
    """Yields what a test put in, and counts how often."""

    platform = "fake"

    def __init__(self, config: FeatureStoreConfig, definitions: Sequence[Definition]) -> None:
        super().__init__(config)
        self.given = definitions
        self.reads = 0
        self.closed: list[bool] = []

    def server_id(self) -> str:
        return "a,b:c"

    def definitions(self) -> Iterator[Definition]:
        self.reads += 1
        yield from self.given

    def check(self) -> Iterator[Finding]:
        yield Finding("the fake store", "ok")

    def close(self) -> None:
        self.closed.append(True)


def table(name: str, features: int = 1, **more: object) -> FeatureTable:
    some = tuple(Feature(name=f"f{i}") for i in range(features))
    return FeatureTable(namespace="n", name=name, kind="View", features=some, **more)  # type: ignore[arg-type]


def source(*definitions: Definition, **config: object) -> FakeSource:
    return FakeSource(FeatureStoreConfig.model_validate(config), definitions)


def urn(name: str) -> str:
    return f"urn:li:mlFeatureTable:(urn:li:dataPlatform:fake,n.{name})"


def test_a_store_without_a_table_that_is_wanted_is_noted() -> None:
    for some, why in (
        (source(), "the store is empty: it has no feature table"),
        (source(table("a"), tables={"deny": ["a"]}), "no table passes the recipe's filters"),
        (source(Broken(namespace="n", name="a", reason="torn")), None),
        (source(table("a", 2_000)), None),
    ):
        *_, last = some.read(ReadRequest())
        assert isinstance(last, Finished)
        noted = [(one.kind, one.detail) for one in last.notes]
        assert noted == ([("nothing_listed", f"fake at a,b:c: {why}")] if why else [])


def test_a_small_store_is_read_once_and_a_large_one_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    small = source(table("a"), table("b", 3))
    monkeypatch.setattr(module, "HELD_COLUMNS", 4)
    assert [one.urn for one in small.coming_tables()] == [urn("a"), urn("b")]
    assert [len(page) for page in pages_of(small)] == [2]
    assert small.reads == 1
    large = source(table("a"), table("b", 4))
    assert len(list(large.coming_tables())) == 2
    assert [len(page) for page in pages_of(large)] == [2]
    assert large.reads == 2


def test_a_source_whose_name_has_commas_is_one_source() -> None:
    (coming,) = source(table("a")).coming_tables()
    assert coming.source == "fake:a%2Cb%3Ac:default"
    assert coming.column == "urn:li:mlFeature:(n.a,f0)"
    (coming,) = source(table("a"), server_id="mine").coming_tables()
    assert coming.source == "fake:mine:default"


def test_a_table_that_can_have_no_name_does_not_come() -> None:
    broken = source(table(""), table("a", 0, keys=(Key(name=""), Key(name="k"))))
    assert [one.column for one in broken.coming_tables()] == ["urn:li:mlPrimaryKey:(n.a,k)"]
    ((record, *_),) = pages_of(broken)
    with pytest.raises(InvalidUrnError):
        list(broken.map(record))


def test_an_instance_that_leaves_no_room_is_refused_at_once() -> None:
    with pytest.raises(RecipeError, match="too long"):
        source(instance="x" * 300)


def test_pages_end_after_so_many_columns() -> None:
    many = source(*(table(f"t{i}", 800) for i in range(5)), FeatureSet(namespace="n", name="s"))
    assert [len(page) for page in pages_of(many)] == [3, 2]


def unlisted(*names: str) -> list[Unlisted]:
    return [Unlisted(urn(name), {}) for name in names]


def test_what_is_not_listed_is_gone_but_what_a_filter_leaves_out_is_not() -> None:
    narrow = source(table("a"), table("b"), tables=PatternFilter(deny=("b",)))
    assert list(narrow.missing("", unlisted("b"))) == [], "nothing was read yet"
    assert [[one.name for one in page] for page in pages_of(narrow)] == [["a"]]
    gone = list(narrow.missing("", unlisted("b", "c")))
    assert [one.urn for one in gone] == [urn("c")]
    assert gone[0].is_gone()
    assert gone[0].second_pass


def test_where_something_is_broken_nothing_is_gone() -> None:
    broken = source(table("a"), Broken(namespace="n", name="b", reason="torn"))
    ((good, bad),) = pages_of(broken)
    assert list(broken.missing("", unlisted("c"))) == []
    with pytest.raises(RecordError, match="torn"):
        list(broken.map(bad))
    versions = [good.record_version, bad.record_version]
    assert [version.id for version in versions if version is not None] == ["n/a", "n/b"]
    assert Broken(namespace=None, name="", reason="").record_version is None


def test_a_reading_of_the_index_alone_has_no_records_and_asks_for_no_partition() -> None:
    class NoState(NullState):
        def partition(self, partition: Partition) -> PartitionState:
            raise AssertionError(partition)

    store = source(table("a", 2_000), table("b"))
    request = ReadRequest(FeaturesOnly(), NoState())
    assert list(pages_of(store, request)) == [(), ()]
    finished = finished_of(store, request)
    assert (finished.partition, finished.checkpoint) == (None, None)
    assert finished.index is not None
    assert [one.table for one in finished.index.tables.values()] == ["a", "b"]


def test_fields_that_could_not_be_read_are_not_reported() -> None:
    hidden = frozenset({"description", "owners", "tags"})
    column = Feature(name="f", unread=frozenset({"description"}))
    one = FeatureTable(namespace=None, name="t", kind="View", features=(column,), unread=hidden)  # type: ignore[arg-type]
    feature, held = map_table(FeatureScope(Naming("fake"), "fake:x:default"), one)
    assert held.aspects.keys() == {"status", "subTypes", "mlFeatureTableProperties"}
    assert "description" not in held.aspects["mlFeatureTableProperties"]
    assert "description" not in feature.aspects["mlFeatureProperties"]
    # Its owners would be those of the table, which nobody knows.
    assert feature.aspects.keys() == {"status", "globalTags", "mlFeatureProperties"}


def test_what_can_have_no_urn_is_noted() -> None:
    one = table("t", 0, tags={"\ud800": ""}, sources=(DatasetPlace("s3", ""),))
    (entity,) = map_table(FeatureScope(Naming("fake"), "fake:x:default"), one)
    assert {note.kind for note in entity.notes} == {"tag_without_urn", "source_without_urn"}
