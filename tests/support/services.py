"""Databases of servers that run beside the tests: a fresh one each, dropped at the end."""

import socket
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import OperationalError

from mlcat_ingest.sql.engine import POSTGRESQL_DRIVER

POSTGRES = f"postgresql+{POSTGRESQL_DRIVER}://postgres@127.0.0.1:5432/postgres"
REDIS = "redis://127.0.0.1:6379/0"
MARIADB = "mysql+pymysql://root@127.0.0.1:3306/mysql"

# MariaDB cannot drop a database that somebody's transaction has read.
_REMOVE_KEYS = (
    "local found = redis.call('KEYS', ARGV[1]) "
    "for _, key in ipairs(found) do redis.call('DEL', key) end return #found"
)

_MARIADB_USERS = "SELECT id FROM information_schema.processlist WHERE db = :name"


def postgres_database() -> AbstractContextManager[str]:
    """Give the address of a new, empty database on the PostgreSQL server of this machine."""
    return _database(POSTGRES, None, "DROP DATABASE {} WITH (FORCE)")


def mariadb_database() -> AbstractContextManager[str]:
    """Give the address of a new, empty database on the MariaDB server of this machine."""
    return _database(MARIADB, _MARIADB_USERS, "DROP DATABASE {}")


@contextmanager
def redis_prefix() -> Iterator[str]:
    """Give a prefix of keys of their own on the Redis server of this machine."""
    prefix = f"mlcat_{uuid.uuid4().hex[:12]}_"
    url = make_url(REDIS)
    try:
        _redis(url, "PING")
    except OSError as error:
        pytest.skip(f"no redis on {url.host}:{url.port}: {error}")
    try:
        yield prefix
    finally:
        _redis(url, "EVAL", _REMOVE_KEYS, "0", f"{prefix}*")


def _redis(url: URL, *words: str) -> None:
    request = f"*{len(words)}\r\n" + "".join(
        f"${len(word.encode())}\r\n{word}\r\n" for word in words
    )
    with socket.create_connection((url.host, url.port or 0), 30) as connection:
        connection.sendall(request.encode())
        reply = connection.recv(1024)
    assert reply.startswith((b"+", b":")), reply


@contextmanager
def _database(address: str, users: str | None, drop: str) -> Iterator[str]:
    url = make_url(address)
    name = f"mlcat_{uuid.uuid4().hex[:12]}"
    server = create_engine(url, isolation_level="AUTOCOMMIT", future=True)
    try:
        try:
            with server.connect() as connection:
                connection.execute(text(f"CREATE DATABASE {name}"))
        except OperationalError as error:
            pytest.skip(f"no {url.get_backend_name()} on {url.host}:{url.port}: {error.orig}")
        try:
            yield url.set(database=name).render_as_string(hide_password=False)
        finally:
            with server.connect() as connection:
                for user in connection.scalars(text(users), {"name": name}) if users else ():
                    connection.execute(text(f"KILL {user}"))
                connection.execute(text(drop.format(name)))
    finally:
        server.dispose()
