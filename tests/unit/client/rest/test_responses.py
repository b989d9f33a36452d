from collections.abc import Mapping

import pytest

from mlcat_ingest.client.rest.connection import Connection
from mlcat_ingest.client.rest.credentials import Credentials
from mlcat_ingest.client.rest.responses import MAX_MESSAGE, is_passing_read, server_message
from mlcat_ingest.errors import (
    CatalogRequestError,
    CatalogUnavailableError,
    MlcatError,
    NotAuthorizedError,
)
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.net.http import Reply
from mlcat_ingest.net.session import HttpOptions

CONNECTION = Connection(lambda: (Credentials("http://here:1"), HttpOptions()))


def reply(status: int, content: bytes, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(status, headers or {}, content, "the catalog service", "http://here:1/aspects")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"message": "no such urn", "status": 422, "stackTrace": "at x"}, "no such urn"),
        ({"error": "Validation Error", "message": "bad"}, "Validation Error: bad"),
        ({"error": "only this"}, "only this"),
        ({"error": {"code": 1}}, "no message"),
        ({"message": ""}, "no message"),
        ([1], "no message"),
    ],
)
def test_each_json_shape_is_understood(body: object, message: str) -> None:
    assert server_message(reply(422, dumps(body))) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"plain  words\r\n", "plain words"),
        (b"", "no message"),
        (b"<html><style>b{}</style><h1>HTTP ERROR 500</h1>a &amp; b", "HTTP ERROR 500 a & b"),
        (b"\x1b[31mred\x00\xff", "[31mred \ufffd"),
    ],
)
def test_text_is_made_fit_for_one_line(content: bytes, message: str) -> None:
    assert server_message(reply(500, content)) == message


def test_long_messages_are_cut() -> None:
    message = server_message(reply(500, b"x" * 100_000))
    assert len(message) == MAX_MESSAGE
    assert message.endswith("…")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, CatalogRequestError),
        (403, NotAuthorizedError),
        (404, CatalogRequestError),
        (408, CatalogUnavailableError),
        (422, CatalogRequestError),
        (500, CatalogUnavailableError),
        (503, CatalogUnavailableError),
    ],
)
def test_the_status_decides_what_the_caller_must_do(status: int, kind: type[MlcatError]) -> None:
    error = CONNECTION.refusal(reply(status, b"its words"), what="reading x", urn="urn:li:tag:a")
    assert type(error) is kind
    known = {"status": status, "urn": "urn:li:tag:a"}
    assert {name: error.context[name] for name in known} == known
    assert f"refused reading x of urn:li:tag:a with {status}: its words" in str(error)


def test_a_read_of_an_unknown_entity_type_is_no_outage() -> None:
    assert is_passing_read(reply(500, b'{"message": "no connection to the database"}'))
    words = {"message": "Failed to find entity with name mlModel in EntityRegistry"}
    assert not is_passing_read(reply(500, dumps(words)))


def test_a_refusal_need_not_be_about_a_urn() -> None:
    error = CONNECTION.refusal(reply(400, b"its words"), what="the query")
    assert "refused the query with 400: its words" in str(error)
    assert "append /gms" in str(CONNECTION.wrong_address(reply(404, b"its words")))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "User urn:li:corpuser:ann is unauthorized to modify entity: "
            + ", ".join(f"HttpStatus: 403 Urn: urn:li:tag:{one}" for one in "ab"),
            "urn:li:corpuser:ann lacks Edit Entity",
        ),
        (
            "urn:li:corpuser:ann is unauthorized to READ entities.",
            "urn:li:corpuser:ann lacks View Entity Page",
        ),
        (
            "urn:li:corpuser:ann is unauthorized to DELETE entities.",
            "urn:li:corpuser:ann lacks Delete",
        ),
        (
            "User urn:li:corpuser:ann is unauthorized to restore indices",
            "User urn:li:corpuser:ann is unauthorized to restore indices",
        ),
        ("this token may only read", "this token may only read"),
    ],
)
def test_a_denial_names_the_privilege_and_no_other_entity(words: str, sentence: str) -> None:
    for body in ({"message": words, "status": 403}, {"error": words}):
        assert server_message(reply(403, dumps(body))) == sentence
