from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.schema.values import (
    Direction,
    EdgeQuery,
    RelatedEntity,
    RelatedPage,
    UrnPage,
    Write,
)
from mlcat_ingest.catalog.store import rows
from mlcat_ingest.catalog.store.store import Store
from support.catalog_store import counts, incoming, named, open_store, outgoing

GROUP = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,g,PROD)"
FEATURE = "urn:li:mlFeature:(t,{})"


def model(number: int) -> str:
    return f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,m{number},PROD)"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(tmp_path / "c.db")) as opened:
        opened.write(
            [
                Write(
                    model(n),
                    "mlModelProperties",
                    {
                        "name": f"Name 100% of {n}_{'x' if n % 2 else 'y'}",
                        "groups": [GROUP],
                        "mlFeatures": [FEATURE.format(n), FEATURE.format("shared")],
                    },
                )
                for n in range(5)
            ]
        )
        yield opened


def test_only_what_exists_has_an_entry(store: Store) -> None:
    found = store.get_many([model(0), GROUP, model(0), "no urn at all"])
    assert list(found) == [model(0)]
    assert list(found[model(0)]) == [
        "mlModelKey",
        "browsePathsV2",
        "dataPlatformInstance",
        "mlModelProperties",
    ]


def test_only_named_aspects_come(store: Store) -> None:
    assert store.get_many([model(0)], ["status"]) == {model(0): {}}
    assert list(store.get_many([model(0)], ["status", "mlModelKey"])[model(0)]) == ["mlModelKey"]
    assert list(store.get_many([model(0)], {"mlModelProperties"})[model(0)]) == [
        "mlModelProperties"
    ]
    assert store.get_many([]) == {}


def test_reading_many_takes_few_statements(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    event.listen(store._engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    urns = [model(n) for n in range(5)]
    store.get_many(urns)
    store.related_entities(urns, EdgeQuery(None, Direction.OUTGOING))
    assert len([one for one in statements if one.startswith("SELECT")]) == 2
    monkeypatch.setattr(rows, "CHUNK", 2)
    statements.clear()
    assert len(store.get_many(urns)) == 5
    assert len([one for one in statements if one.startswith("SELECT")]) == 3


def test_incoming_edges_come_in_pages_oldest_first(store: Store) -> None:
    page = incoming(store, GROUP, "MemberOf", start=1, count=2)
    assert page == RelatedPage(
        5, (RelatedEntity(model(1), "MemberOf"), RelatedEntity(model(2), "MemberOf"))
    )
    beyond = incoming(store, GROUP, "MemberOf", start=10, count=2)
    assert beyond == RelatedPage(5, ())
    assert incoming(store, GROUP, "Consumes") == RelatedPage()
    none = incoming(store, GROUP, "MemberOf", start=0, count=0)
    assert none == RelatedPage(5, ())


def test_outgoing_edges_come_by_relationship_and_urn(store: Store) -> None:
    found = store.related_entities([model(3), model(4), GROUP], EdgeQuery(None, Direction.OUTGOING))
    assert found[GROUP] == RelatedPage()
    assert found[model(3)].entities == (
        RelatedEntity(FEATURE.format(3), "Consumes"),
        RelatedEntity(FEATURE.format("shared"), "Consumes"),
        RelatedEntity(GROUP, "MemberOf"),
    )
    assert found[model(4)].total == 3


def test_edges_follow_the_aspect(store: Store) -> None:
    store.write([Write(model(0), "mlModelProperties", {"groups": []})])
    store.write([Write(model(1), "mlModelProperties", {"groups": [GROUP, GROUP]})])
    store.delete(model(2))
    page = incoming(store, GROUP, "MemberOf")
    assert [end.urn for end in page.entities] == [model(1), model(3), model(4)]
    assert outgoing(store, model(0)).total == 0


def test_entities_are_counted_and_listed_by_type(store: Store) -> None:
    store.write([Write(GROUP, "mlModelGroupProperties", {})])
    assert store.read(counts) == {"mlModel": 5, "mlModelGroup": 1}
    assert store.list_urns("mlModel", 1, 2) == UrnPage(5, (model(1), model(2)))
    assert store.list_urns("mlFeature") == UrnPage(0, ())


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("name 100% 3_x", [3]),
        ("of_", []),
        ("100%of", []),
        ("X", [1, 3]),
        ("MLFLOW,M2", [2]),
        ("   ", [0, 1, 2, 3, 4]),
    ],
)
def test_a_text_finds_by_every_word_in_urn_or_name(
    store: Store, text: str, numbers: list[int]
) -> None:
    assert named(store, text)[::-1] == tuple(model(n) for n in numbers)


def test_more_names_than_there_can_be_are_refused(store: Store) -> None:
    names = [str(number) for number in range(1001)]
    with pytest.raises(BadRequestError, match="more than 1,000 names of aspects"):
        store.get_many([model(0)], names)
    with pytest.raises(BadRequestError, match="more than 1,000 names of relationships"):
        store.related_entities([model(0)], EdgeQuery(names, Direction.OUTGOING))
