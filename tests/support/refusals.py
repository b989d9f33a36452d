"""The one JSON shape in which each family of endpoints tells an error."""

from typing import Any
from urllib.parse import urlsplit


def refusal_message(url: str, status: int, body: Any) -> str:
    """Check the shape of an error and return its sentence; `url` is what was asked for."""
    if "/openapi/" in urlsplit(url).path:
        assert set(body) == {"error", "message"}
        assert isinstance(body["error"], str)
        assert body["error"]
    else:
        assert set(body) == {"exceptionClass", "message", "status"}
        assert body["status"] == status
    assert isinstance(body["message"], str)
    assert body["message"]
    return body["message"]
