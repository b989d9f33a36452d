"""The index stays true to what is stored, whatever happens to it."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import Connection

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.search import index
from mlcat_ingest.catalog.store.reindex import ReindexScope, rebuild, reindex_batch
from mlcat_ingest.catalog.store.store import Store, known_platforms
from support.catalog_store import group, model, open_store, put
from support.searching import search


def dump(store: Store) -> dict[str, Any]:
    """Return what the index holds, numbers of keywords and sets spelled out."""

    def read(connection: Connection) -> dict[str, Any]:
        def rows(query: str) -> list[Any]:
            return sorted(map(tuple, connection.execute(text(query))))

        connection.exec_driver_sql("INSERT INTO search_fts (search_fts) VALUES ('integrity-check')")
        names = {row[0]: row[1:] for row in rows("SELECT id, field, value FROM search_keyword")}

        def spelled(members: str) -> list[Any]:
            return sorted(names[int(number)] for number in members.split())

        counted = {
            table: sorted(
                (spelled(members), entities)
                for members, entities in rows(f"SELECT members, entities FROM {table}")
            )
            for table in ("search_profile", "search_figure_set")
        }
        members = rows(
            "SELECT p.members, m.keyword_id FROM search_member m "
            "JOIN search_profile p ON p.id = m.profile_id"
        )
        return counted | {
            "members": sorted((spelled(profile), names[number]) for profile, number in members),
            "member rows": rows("SELECT count(*) FROM search_member"),
            "figures": sorted(
                (names[number], entity_id, str(value))
                for number, entity_id, value in rows("SELECT * FROM search_figure")
            ),
            "entities": rows("SELECT id, name, created_ms, modified_ms FROM search_entity"),
            "texts": [row[:-1] for row in rows("SELECT * FROM search_text")],
        }

    return store.change(read)


def anew(store: Store) -> dict[str, Any]:
    store.change(rebuild)
    return dump(store)


def some(store: Store) -> None:
    for at in range(5):
        put(
            store,
            model(f"m{at}"),
            mlModelProperties={
                "name": f"hare {at}",
                "trainingMetrics": [{"name": f"metric{at % 2}", "value": "1"}],
            },
            globalTags={"tags": [{"tag": f"urn:li:tag:t{at % 2}"}]},
        )


CHANGES: dict[str, Callable[[Store], object]] = {
    "another name": lambda s: put(s, model("m1"), mlModelProperties={"name": "other"}),
    "the same again": lambda s: put(s, model("m1"), mlModelProperties={"name": "hare 1"}),
    "fewer tags": lambda s: put(s, model("m1"), globalTags={"tags": []}),
    "removed": lambda s: put(s, model("m1"), status={"removed": True}),
    "back": lambda s: put(s, model("m1"), status={"removed": False}),
    "deleted": lambda s: s.delete(model("m1")),
    "all deleted": lambda s: [s.delete(model(f"m{at}")) for at in range(5)],
    "one aspect deleted": lambda s: s.write([Write(model("m1"), "globalTags", change="DELETE")]),
    "key only": lambda s: s.write([Write(model("new"), "status", {"removed": False})]),
    "not searched": lambda s: put(s, model("m1"), sourceCode={"sourceCode": []}),
    "deleted and made in one batch": lambda s: s.write(
        [
            Write(model("m1"), "mlModelKey", change="DELETE"),
            Write(model("m1"), "mlModelProperties", {"name": "again"}),
            Write(model("m9"), "mlModelProperties", {"name": "not for long"}),
            Write(model("m9"), "mlModelKey", change="DELETE"),
        ]
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_after_each_change_the_index_is_as_if_made_anew(
    store: Store, change: Callable[[Store], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "CHUNK", 2)
    monkeypatch.setattr(index, "_ITEMS", 2)
    some(store)
    change(store)
    assert dump(store) == anew(store)


def test_a_batch_that_is_refused_leaves_no_trace(store: Store) -> None:
    some(store)
    before = dump(store)
    with pytest.raises(Exception, match="already exists"):
        store.write(
            [
                Write(model("m1"), "mlModelProperties", {"name": "other"}),
                Write(model("m2"), "globalTags", {"tags": []}, change="CREATE"),
            ]
        )
    assert dump(store) == before


def test_the_restoring_task_mends_what_somebody_changed_behind_our_back(store: Store) -> None:
    some(store)
    before = dump(store)
    store.change(lambda connection: index.remove(connection, [1, 2]))
    store.change(lambda connection: reindex_batch(connection, ReindexScope(), 0))
    assert dump(store) == before


def test_an_index_of_another_version_is_made_anew_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(open_store(tmp_path / "c.db")) as store:
        put(store, group("g"), mlModelGroupProperties={"name": "churn"})
        store.change(index.clear)
        sql = "UPDATE setting SET value = 'old' WHERE name = 'search_index_version'"
        store.change(lambda connection: connection.execute(text(sql)))
    with caplog.at_level("INFO"):
        for _ in range(2):
            with closing(open_store(tmp_path / "c.db")) as store:
                assert search(store, "churn") == ["g"]
    assert [one for one in caplog.messages if "search index" in one] == [
        f"rebuilt the search index of {1 + len(known_platforms())} entities"
    ]
