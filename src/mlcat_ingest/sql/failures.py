"""What a database's driver says when something fails, as errors of ours with the cure.

Drivers agree on no codes, and PostgreSQL's gives none when connecting fails, so their words are
looked at; in a language that is not known here, an error counts as one that may pass later.
"""

import re
from typing import Final, NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from mlcat_ingest.core.redaction import redact_urls
from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
    SourceUnavailableError,
)

_SAID_CHARS: Final = 300


class DatabaseOwner(NamedTuple):
    """Whose database it is: the program, and what it calls the database."""

    program: str
    noun: str


class _Kind(NamedTuple):
    """What drivers say in one kind of failure, and what we make of it for a holder."""

    said: str
    error: type[MlcatError]
    sentence: str
    cure: str


_KINDS: Final = (
    _Kind(
        said=r"password|role .* does not exist|not permitted to log in|no pg_hba\.conf entry"
        r"|access denied for user (?!.* to database)",
        error=AuthenticationError,
        sentence="does not let us in",
        cure="are user name and password in the address right?",
    ),
    _Kind(
        said=r"permission denied|access denied|command denied",
        error=NotAuthorizedError,
        sentence="does not permit to read",
        cure="the user needs SELECT on {program}'s tables, and nothing else",
    ),
    _Kind(
        said=r"unable to open database file",
        error=NotAuthorizedError,
        sentence="cannot be opened",
        cure="the file has to be readable; beside a server in WAL mode, its folder writable too",
    ),
    _Kind(
        said=r"database .* does not exist|unknown database",
        error=RecipeError,
        sentence="is not there",
        cure="is the name of the database in the address right?",
    ),
    _Kind(
        said=r"not a database|no such (table|column)|does(n't| not) exist|unknown (table|column)",
        error=ProtocolMismatchError,
        sentence="is no {noun}",
        cure="is the address that of {program}'s own tables?",
    ),
    _Kind(
        said=r"is locked|statement timeout|lock wait timeout",
        error=SourceUnavailableError,
        sentence="keeps us waiting for too long",
        cure="is it being migrated? `timeout_s` says how long to wait",
    ),
    _Kind(
        said=r"malformed|corrupt|invalid page|could not decode",
        error=SourceUnavailableError,
        sentence="is damaged",
        cure="restore it, or for SQLite see what `PRAGMA integrity_check` says",
    ),
    _Kind(
        said="",
        error=SourceUnavailableError,
        sentence="does not answer",
        cure="is it running, and is the address right?",
    ),
)


def failure(
    holder: DatabaseOwner, shown: str, error: SQLAlchemyError, password: str | None
) -> MlcatError:
    """Return the error to raise for one of the driver; `shown` names the database publicly."""
    said = _said(error, password)
    kind = next(kind for kind in _KINDS if re.search(kind.said, said, re.IGNORECASE))
    words = holder._asdict()
    return kind.error(
        f"the {holder.noun} {shown} {kind.sentence.format(**words)}: {said}",
        hint=kind.cure.format(**words),
    )


def _said(error: SQLAlchemyError, password: str | None) -> str:
    """Return what the driver said, without SQL, on one line."""
    cause = getattr(error, "orig", None)
    if cause is None:
        return type(error).__name__
    # MySQL's drivers give a number before the text.
    texts = [each for each in cause.args if isinstance(each, str)]
    said = " ".join(" ".join(texts).split()) or type(cause).__name__
    hidden = password is not None and password in said
    return type(cause).__name__ if hidden else redact_urls(said)[:_SAID_CHARS]
