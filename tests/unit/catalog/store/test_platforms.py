from pathlib import Path

from mlcat_ingest.catalog.search.request import SearchRequest
from mlcat_ingest.catalog.store.store import Store, known_platforms
from mlcat_ingest.sources import datasets
from support.catalog_store import MLFLOW, counts, named, put

PLATFORM_TYPE = "dataPlatform"


def test_known_platforms_are_there_from_the_start(store: Store) -> None:
    urns = {write.urn for write in known_platforms()}
    assert len(urns) == len(known_platforms()) > 60
    assert set(store.list_urns(PLATFORM_TYPE, 0, 1000).urns) == urns
    info = store.get_many([MLFLOW])[MLFLOW]["dataPlatformInfo"]
    assert info.value == {
        "name": "mlflow",
        "displayName": "MLflow",
        "type": "OTHERS",
        "datasetNameDelimiter": ".",
    }
    assert (info.version, info.created_by) == (1, "urn:li:corpuser:__datahub_system")


def test_every_platform_that_we_write_about_is_known() -> None:
    named_by_us = {
        *datasets._OBJECT_STORES.values(),
        *datasets.LEVELS,
        *("mlflow", "feast", "sagemaker", "abs", "http", "file", "dbfs", "hdfs", "databricks"),
        *("huggingface", "kaggle", "delta-lake"),
    }
    known = {write.urn.rpartition(":")[2] for write in known_platforms()}
    assert named_by_us <= known


def test_what_somebody_made_of_a_platform_stays(store: Store, tmp_path: Path) -> None:
    feast = "urn:li:dataPlatform:feast"
    value = store.get_many([MLFLOW])[MLFLOW]["dataPlatformInfo"].value
    put(store, MLFLOW, dataPlatformInfo={**value, "displayName": "Ours"})
    store.delete(feast)
    store.close()
    again = Store.open(tmp_path / "c.db")
    assert again.get_many([MLFLOW])[MLFLOW]["dataPlatformInfo"].value["displayName"] == "Ours"
    assert again.exists([feast]) == set()
    again.close()


def test_platforms_show_only_where_they_are_asked_for(store: Store) -> None:
    assert store.read(counts) == {}
    assert named(store) == named(store, "mlflow") == ()
    assert store.search(SearchRequest("mlflow")).total == 0
    assert store.search(SearchRequest()).total == 0
    asked = SearchRequest("mlflow", entity_types=frozenset({PLATFORM_TYPE}))
    assert [hit.urn for hit in store.search(asked).hits] == [MLFLOW]
