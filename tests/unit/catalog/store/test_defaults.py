"""Aspects that an entity has without anybody having written them."""

import pytest
from sqlalchemy import text

from mlcat_ingest.catalog.errors import VersionConflictError
from mlcat_ingest.catalog.schema.values import (
    AspectVersion,
    RelatedEntity,
    Write,
    WriteResult,
)
from mlcat_ingest.catalog.store.store import Store
from support.catalog_store import MLFLOW, feature, incoming, model, outgoing, put, table

INSTANCE = "dataPlatformInstance"
BROWSE = {"path": [{"id": "Default"}]}
OURS = {"platform": MLFLOW, "instance": f"urn:li:dataPlatformInstance:({MLFLOW},prod)"}
THEIRS = {"platform": MLFLOW, "instance": f"urn:li:dataPlatformInstance:({MLFLOW},other)"}


def instance(store: Store, urn: str) -> AspectVersion:
    return store.get_many([urn], [INSTANCE])[urn][INSTANCE]


@pytest.mark.parametrize(
    ("urn", "platform", "browsed"),
    [
        (model("m"), MLFLOW, True),
        (table("t"), "urn:li:dataPlatform:feast", True),
        (feature("t", "f"), None, True),
        (f"urn:li:mlModelDeployment:({MLFLOW},d,PROD)", MLFLOW, False),
        ("urn:li:dataFlow:(airflow,f,PROD)", "urn:li:dataPlatform:airflow", True),
        (
            "urn:li:dataJob:(urn:li:dataFlow:(airflow,f,PROD),j)",
            "urn:li:dataPlatform:airflow",
            True,
        ),
        ("urn:li:tag:t", None, False),
        ("urn:li:chart:(looker,c)", None, False),
        ("urn:li:container:c", None, True),
    ],
)
def test_defaults_are_read_where_the_kind_carries_them(
    store: Store,
    urn: str,
    platform: str | None,
    browsed: bool,  # noqa: FBT001
) -> None:
    put(store, urn, status={"removed": False})
    held = store.get_many([urn])[urn]
    assert held.get(INSTANCE, held["status"]).value.get("platform") == platform
    assert ("browsePathsV2" in held) is browsed
    for found in (held, store.get_many([urn], [INSTANCE, "browsePathsV2"])[urn]):
        assert [one.value for name, one in found.items() if name == "browsePathsV2"] == (
            [BROWSE] if browsed else []
        )
    count = text("SELECT count(*) FROM aspect JOIN entity ON entity_id = id WHERE urn = :urn")
    rows = store.read(lambda connection: connection.scalar(count, {"urn": urn}))
    assert rows == 1


def test_a_default_looks_like_a_first_version(store: Store) -> None:
    urn = put(store, model("m"), status={"removed": False})
    held = instance(store, urn)
    status = store.get_many([urn])[urn]["status"]
    assert held == AspectVersion(
        f'{{"platform":"{MLFLOW}"}}', 1, *(status.created_ms, status.created_by) * 2
    )
    assert store.get_version(urn, INSTANCE, 0) == store.get_version(urn, INSTANCE, 1) == held
    assert store.get_version(urn, INSTANCE, 2) is None
    assert store.get_version(model("x"), INSTANCE, 1) is None


def test_a_default_is_written_once_by_compare_and_swap(store: Store) -> None:
    urn = put(store, model("m"), status={"removed": False})
    ours = Write(urn, INSTANCE, OURS, expected_version="1")
    with pytest.raises(VersionConflictError, match="Expected version -1, actual version 1"):
        store.write([ours._replace(expected_version="-1")])
    assert store.write([ours]) == [WriteResult(urn, INSTANCE, 2, changed=True)]
    for late in ("-1", "1"):
        with pytest.raises(VersionConflictError, match="actual version 2"):
            store.write([Write(urn, INSTANCE, THEIRS, expected_version=late)])
    former = store.get_version(urn, INSTANCE, 1)
    assert former is not None
    assert former.value == {"platform": MLFLOW}


def test_a_default_is_there_and_cannot_be_created(store: Store) -> None:
    urn = put(store, model("m"), status={"removed": False})
    with pytest.raises(VersionConflictError, match="already exists"):
        store.write([Write(urn, INSTANCE, OURS, "CREATE")])


def test_a_default_that_is_written_back_is_not_stored(store: Store) -> None:
    urn = put(store, model("m"), status={"removed": False})
    back = [Write(urn, name, one.value) for name, one in store.get_many([urn])[urn].items()]
    assert [one.changed for one in store.write(back)] == [False] * 4
    assert instance(store, urn).version == 1
    with pytest.raises(VersionConflictError, match="Expected version 3, actual version 1"):
        store.write([Write(urn, INSTANCE, OURS, expected_version="3")])
    at = instance(store, urn).modified_ms
    with pytest.raises(VersionConflictError):
        store.write([Write(urn, INSTANCE, OURS, if_modified_since_ms=at)])


def test_what_is_written_with_its_entity_was_never_a_default(store: Store) -> None:
    urn = model("m")
    key = Write(urn, "mlModelKey", {"platform": MLFLOW, "name": "m", "origin": "PROD"})
    written = store.write([key, Write(urn, INSTANCE, OURS, "CREATE", expected_version="-1")])
    assert [one.version for one in written] == [1, 1]


def test_deleting_a_default_writes_it_again(store: Store) -> None:
    urn = put(store, model("m"), dataPlatformInstance=OURS)
    delete = Write(urn, INSTANCE, change="DELETE")
    assert store.write([delete]) == [WriteResult(urn, INSTANCE, 2, changed=True)]
    assert (instance(store, urn).value, instance(store, urn).version) == ({"platform": MLFLOW}, 2)
    assert store.write([delete]) == [WriteResult(urn, INSTANCE, 2, changed=False)]
    other = put(store, model("n"), status={"removed": False})
    assert store.write([Write(other, INSTANCE, change="DELETE")])[0].changed is False


def test_a_patch_starts_from_the_default(store: Store) -> None:
    urn = put(store, model("m"), status={"removed": False})
    add = {"op": "add", "path": "/instance", "value": OURS["instance"]}
    store.write([Write(urn, INSTANCE, {"patch": [add], "forceGenericPatch": True}, "PATCH")])
    assert instance(store, urn).value == OURS


def test_a_table_leads_to_its_platform(store: Store) -> None:
    feast = "urn:li:dataPlatform:feast"
    urns = [put(store, table(name), mlFeatureTableProperties={}) for name in ("a", "b")]
    put(store, urns[0], mlFeatureTableProperties={"description": "d"})
    page = incoming(store, feast, "SourcePlatform")
    assert page.entities == tuple(RelatedEntity(urn, "SourcePlatform") for urn in urns)
    store.delete(urns[0])
    assert incoming(store, feast).total == 1
    job = "urn:li:dataJob:(urn:li:dataFlow:(airflow,f,PROD),j)"
    put(store, job, status={"removed": False})
    assert outgoing(store, job).entities == (
        RelatedEntity("urn:li:dataFlow:(airflow,f,PROD)", "IsPartOf"),
    )
