"""A registry database: read as of one moment, with SELECT alone, whatever the database."""

import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import LargeBinary, MetaData, String, create_engine, text
from sqlalchemy.dialects.mysql import LONGBLOB
from sqlalchemy.engine import make_url

from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
    SourceUnavailableError,
)
from support.feast import SQL_REGISTRY
from support.feast_transports import objects_of, transport_of
from support.ports import free_port
from support.services import mariadb_database, postgres_database

Database = Callable[[], AbstractContextManager[str]]
PASSWORD = "s3cret-word"
SERVERS = [
    pytest.param(postgres_database, id="postgresql"),
    pytest.param(mariadb_database, id="mariadb"),
]


def copied(address: str) -> None:
    """Copy the registry that is kept for tests into an empty database, with Feast's own types."""
    source, target = (
        create_engine(f"sqlite:///{SQL_REGISTRY}", future=True),
        create_engine(address, future=True),
    )
    tables = MetaData()
    tables.reflect(source)
    for table in tables.sorted_tables:
        for column in table.columns:
            if isinstance(column.type, LargeBinary):
                column.type = LargeBinary().with_variant(LONGBLOB(), "mysql")
            elif isinstance(column.type, String):
                column.type = String(255)
    with source.connect() as old, target.begin() as new:
        tables.create_all(new)
        for table in tables.sorted_tables:
            if rows := [row._asdict() for row in old.execute(table.select())]:
                new.execute(table.insert(), rows)
    source.dispose()
    target.dispose()


def execute(address: str, *statements: str) -> None:
    engine = create_engine(address, future=True)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


@contextmanager
def reader_of(address: str) -> Iterator[str]:
    """Give the address of a user who may read Feast's entities, and nothing else yet."""
    name, url = f"mlcat_{uuid.uuid4().hex[:8]}", make_url(address)
    execute(address, f"CREATE USER {name} PASSWORD '{PASSWORD}'")
    try:
        yield url.set(username=name, password=PASSWORD).render_as_string(hide_password=False)
    finally:
        execute(address, f"DROP OWNED BY {name}", f"DROP USER {name}")


def refused(address: str) -> MlcatError:
    with pytest.raises(MlcatError) as raised:
        objects_of(address)
    assert PASSWORD not in str(raised.value)
    return raised.value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(SQL_REGISTRY, tmp_path / "r.sqlite"))


@pytest.mark.parametrize("database", SERVERS)
def test_every_database_holds_the_same_objects(database: Database) -> None:
    with database() as address:
        copied(address)
        assert objects_of(address) == objects_of(f"sqlite:///{SQL_REGISTRY}")
        execute(address, "DROP TABLE feature_services", "DROP TABLE entities")
        assert "missing tables: entities" in refused(address).message


@pytest.mark.parametrize("database", SERVERS)
def test_a_column_that_is_missing_or_of_another_type_is_named(database: Database) -> None:
    with database() as address:
        copied(address)
        execute(address, "ALTER TABLE entities ADD COLUMN reviewed_by VARCHAR(20)")
        assert len(objects_of(address)) == 48
        execute(address, "ALTER TABLE entities RENAME COLUMN entity_proto TO proto")
        assert refused(address).message.endswith("by SQL: no column entities.entity_proto")
        execute(address, "ALTER TABLE entities ADD COLUMN entity_proto VARCHAR(20)")
        error = refused(address)
        assert isinstance(error, ProtocolMismatchError)
        assert "by SQL: entities.entity_proto is of type VARCHAR(20)" in error.message
        assert "feast serve_registry" in (error.hint or "")


@pytest.mark.parametrize("database", SERVERS)
def test_all_objects_are_of_one_moment(database: Database) -> None:
    with database() as address:
        copied(address)
        with closing(transport_of(address)) as transport:
            objects = transport.objects()
            first = next(objects)
            execute(address, "DELETE FROM feature_services")
            assert len([first, *objects]) == 48
            assert len(list(transport.objects())) == 46


def test_select_on_feasts_tables_is_all_that_a_user_needs() -> None:
    with postgres_database() as address:
        copied(address)
        with reader_of(address) as ours:
            assert isinstance(refused(ours), NotAuthorizedError)
            user = make_url(ours).username
            execute(address, f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}")
            assert len(objects_of(ours)) == 48


def test_a_wrong_password_and_a_wrong_name_are_distinguished_and_not_repeated() -> None:
    with postgres_database() as address:
        copied(address)
        url = make_url(address)
        wrong = url.set(username="nobody_of_ours", password=PASSWORD)
        assert isinstance(refused(wrong.render_as_string(hide_password=False)), AuthenticationError)
        missing = url.set(database="none_of_ours", password=PASSWORD)
        assert isinstance(refused(missing.render_as_string(hide_password=False)), RecipeError)
    nobody = f"postgresql://me:{PASSWORD}@127.0.0.1:{free_port()}/db"
    assert isinstance(refused(nobody), SourceUnavailableError)


def test_tables_that_an_older_feast_lacks_are_left_out(path: Path) -> None:
    late = "('projects', 'label_views', 'stream_feature_views')"
    with closing(sqlite3.connect(path)) as connection, connection:
        found = connection.execute(f"SELECT name FROM sqlite_master WHERE name IN {late}")
        for (name,) in found.fetchall():
            connection.execute(f"DROP TABLE {name}")
    kinds = {raw.kind for raw in objects_of(f"sqlite:///{path}")}
    assert "feature_view" in kinds
    assert not kinds & {"project", "label_view", "stream_feature_view"}


def test_a_column_of_the_metadata_that_is_missing_is_named(path: Path) -> None:
    execute(f"sqlite:///{path}", "ALTER TABLE feast_metadata RENAME COLUMN metadata_key TO name")
    assert "no column feast_metadata.metadata_key" in refused(f"sqlite:///{path}").message


def test_a_message_that_was_cut_off_is_handed_on_as_it_is(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE feature_views SET feature_view_proto = substr(feature_view_proto, 1, 40)"
            " WHERE feature_view_name = (SELECT min(feature_view_name) FROM feature_views)"
        )
    cut = [raw for raw in objects_of(f"sqlite:///{path}") if len(raw.proto) == 40]
    assert [(raw.kind, raw.project, bool(raw.name)) for raw in cut] == [
        ("feature_view", "rides", True)
    ]


def test_reading_keeps_no_writer_waiting(path: Path) -> None:
    with closing(transport_of(f"sqlite:///{path}")) as transport:
        objects = transport.objects()
        next(objects)
        with closing(sqlite3.connect(path, timeout=0)) as connection, connection:
            connection.execute("DELETE FROM feature_views")
        assert len(list(objects)) == 47


def test_other_files_and_databases_are_no_registry(path: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE entities (x)")
    assert "missing tables: data_sources" in refused(f"sqlite:///{tmp_path}/other.db").message
    (tmp_path / "text.db").write_text("no database" * 100)
    assert isinstance(refused(f"sqlite:///{tmp_path}/text.db"), ProtocolMismatchError)
    assert isinstance(refused(f"sqlite:///{tmp_path}/none.db"), RecipeError)
    with pytest.raises(RecipeError, match="2,048 bytes"):
        objects_of(f"sqlite:///{path}", max_bytes=2048)


def in_schema(address: str, schema: str) -> str:
    """Return the address of a copy of the registry in a new schema."""
    execute(address, f"CREATE SCHEMA {schema}")
    url = make_url(address).update_query_dict({"options": f"-csearch_path={schema}"})
    copied(schema_address := url.render_as_string(hide_password=False))
    return schema_address


def test_a_schema_is_part_of_the_identity_however_the_search_path_is_set() -> None:
    with postgres_database() as address:
        copied(address)
        default = transport_of(address).server_id()
        name = make_url(address).database
        assert default == f"postgresql/127.0.0.1:5432/{name}"
        by_address = in_schema(address, "team_a")
        execute(address, "CREATE SCHEMA empty")
        first_is_empty = by_address.replace("team_a", "empty%2Cteam_a")
        identities = [transport_of(one).server_id() for one in (by_address, first_is_empty)]
        assert len(objects_of(first_is_empty)) == 48
        execute(address, f"ALTER DATABASE {name} SET search_path = team_a")
        identities.append(transport_of(address).server_id())
        with reader_of(address) as ours:
            user = make_url(ours).username
            execute(address, f"GRANT USAGE ON SCHEMA public TO {user}")
            execute(address, f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}")
            execute(address, f"ALTER ROLE {user} SET search_path = public")
            assert transport_of(ours).server_id() == default
        assert identities == [f"{default}/team_a"] * 3


def test_the_identity_of_a_database_names_neither_user_nor_driver() -> None:
    same = {
        "mysql://me:pw@Db.example.com/feast",
        "mysql+pymysql://you@db.example.com:3306/feast?charset=utf8mb4",
    }
    assert {transport_of(address).server_id() for address in same} == {
        "mysql/db.example.com:3306/feast"
    }
    sqlite = transport_of(f"sqlite:///{SQL_REGISTRY}").server_id()
    assert sqlite == f"sqlite{SQL_REGISTRY}"
