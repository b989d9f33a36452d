"""Which version of documents and tokens the index of a database was made with."""

from typing import Final

from sqlalchemy import Connection, delete, insert, select

from mlcat_ingest.catalog.schema.tables import setting
from mlcat_ingest.catalog.search.document import INDEX_VERSION

_NAME: Final = "search_index_version"


def is_current(connection: Connection) -> bool:
    """Return whether the index was made as this version makes it; otherwise it has to be again."""
    query = select(setting.c.value).where(setting.c.name == _NAME)
    return connection.scalar(query) == str(INDEX_VERSION)


def set_current(connection: Connection) -> None:
    """Record that the index is made as this version makes it."""
    connection.execute(delete(setting).where(setting.c.name == _NAME))
    connection.execute(insert(setting).values(name=_NAME, value=str(INDEX_VERSION)))
