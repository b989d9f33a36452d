"""Whether a catalog takes primary keys is found out once, and nothing is lost where it does not."""

import json
from collections.abc import Callable, Sequence

import pytest

from mlcat_ingest.errors import CatalogRequestError, CatalogUnavailableError, MlcatError
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Entity, Note, Proposal
from mlcat_ingest.metadata.reserved import PRIMARY_KEYS
from mlcat_ingest.pipeline.read.feature_tables import PrimaryKeys
from mlcat_ingest.workflows.check import overlap
from support.fakes import FakeSink, FakeSource

TABLE = "urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,rides.drivers)"
KEY = "urn:li:mlPrimaryKey:(rides.drivers,driver%2Cid)"
FEATURE = "urn:li:mlFeature:(rides.drivers,rate)"
RECORD = [
    Entity(FEATURE, {"mlFeatureProperties": {"dataType": "COUNT"}}),
    Entity(
        KEY,
        {
            "status": {"removed": False},
            "mlPrimaryKeyProperties": {
                "customProperties": {"mlcat.source": "feast:x", "join_key": "driver_id"},
                "description": None,
                "dataType": "ORDINAL",
                "sources": [],
            },
        },
        notes=(Note("kind", "of the key"),),
    ),
    Entity(
        TABLE,
        {
            "mlFeatureTableProperties": {
                "customProperties": {"mlcat.source": "feast:x"},
                "mlFeatures": [FEATURE],
                "mlPrimaryKeys": [KEY],
            }
        },
        notes=(Note("kind", "of the table"),),
    ),
]
BAD_REQUEST = CatalogRequestError("no such entity", status=400)


def failing(error: MlcatError, what: str = "mlPrimaryKey") -> Callable[[Sequence[str]], None]:
    def before_read(urns: Sequence[str]) -> None:
        if any(what in urn for urn in urns):
            raise error

    return before_read


def failing_write(
    error: MlcatError, what: str = "mlPrimaryKey"
) -> Callable[[Sequence[Proposal]], None]:
    before = failing(error, what)
    return lambda proposals: before([one.entity_urn for one in proposals])


def server_error(status: int | None) -> CatalogUnavailableError:
    return CatalogUnavailableError("not now", context={"status": status})


def test_a_catalog_that_takes_keys_gets_them_and_is_asked_once() -> None:
    sink, reported = FakeSink(place="here"), list[str]()
    keys = PrimaryKeys(sink, reported.append)
    assert keys.are_read(KEY)
    assert keys.fit(RECORD) == keys.fit(RECORD) == RECORD
    assert (sink.reads, reported, keys.refused) == ([[KEY]], [], ())
    assert [[one.entity_urn for one in some] for some in sink.writes] == [[KEY]]
    assert sink.stored == {}, "no version is the one that the write names"


def test_a_catalog_that_holds_a_key_is_not_written_to() -> None:
    sink = FakeSink(place="here", stored={KEY: {"mlPrimaryKeyProperties": {}}})
    keys = PrimaryKeys(sink, lambda _: None)
    without_keys = Entity(TABLE, {"mlFeatureTableProperties": {"mlPrimaryKeys": []}})
    assert keys.fit([without_keys]) == [without_keys]
    assert keys.fit(RECORD) == RECORD
    assert sink.writes == []


@pytest.mark.parametrize("status", [404, 500])
def test_a_catalog_that_cannot_be_written_at_all_has_not_refused_keys(status: int) -> None:
    failure = server_error(status)
    sink, reported = FakeSink(place="here", before_write=failing_write(failure, "urn")), list[str]()
    assert PrimaryKeys(sink, reported.append).fit(RECORD) == RECORD
    assert reported == []


def test_a_catalog_that_refuses_whatever_is_written_has_not_refused_keys() -> None:
    sink = FakeSink(place="here", refuse={KEY, TABLE}, checks_versions=False)
    reported = list[str]()
    assert PrimaryKeys(sink, reported.append).fit(RECORD) == RECORD
    assert reported == []


def test_keys_that_are_read_and_not_written_stand_on_their_table_too() -> None:
    sink = FakeSink(place="here", refuse={KEY}, checks_versions=False)
    reported = list[str]()
    keys = PrimaryKeys(sink, reported.append)
    feature, table = keys.fit(RECORD)
    assert list(keys.fit(RECORD)) == [feature, table]
    assert PRIMARY_KEYS in table.aspects["mlFeatureTableProperties"]["customProperties"]
    assert len(reported) == 1
    assert "422: not liked" in reported[0]
    assert sink.stored == {TABLE: {"status": {"removed": False}}}, "which it gets anyway"
    assert list(keys.refused) == ["mlPrimaryKey"]


def test_a_catalog_that_goes_down_at_the_first_key_has_not_refused_keys() -> None:
    sink = FakeSink(place="here", before_write=failing_write(server_error(503)))
    with pytest.raises(CatalogUnavailableError):
        PrimaryKeys(sink, lambda _: None).fit(RECORD)


def test_what_has_no_tables_asks_nothing_and_a_sink_that_holds_nothing_is_not_asked() -> None:
    sink, reported = FakeSink(place="here"), list[str]()
    assert PrimaryKeys(sink, reported.append).fit(RECORD[:1]) == RECORD[:1]
    file = FakeSink(before_read=failing(BAD_REQUEST))
    assert PrimaryKeys(file, reported.append).fit(RECORD) == RECORD
    assert (sink.reads, file.reads, reported) == ([], [], [])


@pytest.mark.parametrize("error", [BAD_REQUEST, server_error(500)])
def test_refused_keys_stand_on_their_table_and_that_is_reported_once(error: MlcatError) -> None:
    sink, reported = FakeSink(place="here", before_read=failing(error)), list[str]()
    keys = PrimaryKeys(sink, reported.append)
    feature, table = keys.fit(RECORD)
    assert feature == RECORD[0]
    assert list(keys.fit(RECORD)) == [feature, table]
    assert len(reported) == 1
    properties = table.aspects["mlFeatureTableProperties"]
    assert set(properties) == {"customProperties", "mlFeatures"}
    assert json.loads(properties["customProperties"].pop(PRIMARY_KEYS)) == [
        {"name": "driver,id", "type": "ORDINAL", "join_key": "driver_id"}
    ]
    assert properties["customProperties"] == {"mlcat.source": "feast:x"}
    assert [note.detail for note in table.notes] == ["of the table", "of the key"]
    assert list(keys.refused) == ["mlPrimaryKey"]


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (server_error(503), None),
        (server_error(None), None),
        (BAD_REQUEST, "urn"),
        (server_error(500), "urn"),
    ],
)
def test_a_catalog_that_is_down_or_refuses_to_read_anything_has_not_refused_keys(
    error: MlcatError, asked: str | None
) -> None:
    before_read = failing(error) if asked is None else failing(error, asked)
    sink, reported = FakeSink(place="here", before_read=before_read), list[str]()
    with pytest.raises(type(error)):
        PrimaryKeys(sink, reported.append).fit(RECORD)
    assert reported == []


def test_a_key_whose_urn_is_none_is_left_to_the_catalog() -> None:
    bad = [Entity("urn:li:mlPrimaryKey:(a", {}), RECORD[2]]
    sink = FakeSink(place="here", before_read=failing(BAD_REQUEST))
    assert PrimaryKeys(sink, lambda _: None).fit(bad) == bad


def test_the_doctor_says_that_keys_are_refused_and_looks_at_the_rest() -> None:
    sink = FakeSink(place="here", before_read=failing(BAD_REQUEST))
    met, keys = overlap(FakeSource([RECORD]), sink, Writer("mine"))
    assert met.detail == "none among 2 sampled"
    assert keys.outcome == "warning"
    assert PRIMARY_KEYS in keys.detail
