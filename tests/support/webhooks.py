"""Deliveries of webhooks as MLflow sends them, and a listener to their events."""

import base64
import hashlib
import hmac
from email.message import Message
from typing import Any

NOW_S = 1_800_000_000.0
ALIAS = {
    "entity": "model_version_alias",
    "action": "created",
    "timestamp": "2027-01-15T08:00:00+00:00",
    "data": {"name": "m", "alias": "champion", "version": "1"},
}


def signed(body: bytes, delivery: str = "d1", at_s: float = NOW_S, secret: str = "s") -> Message:
    """Return headers as MLflow's `_generate_hmac_signature` makes them, but of other case."""
    at = str(int(at_s))
    content = f"{delivery}.{at}.".encode() + body
    digest = hmac.new(secret.encode(), content, hashlib.sha256).digest()
    headers = Message()
    headers["x-mlflow-delivery-id"] = delivery
    headers["x-mlflow-timestamp"] = at
    headers["x-mlflow-signature"] = f"v1,{base64.b64encode(digest).decode()}"
    return headers


class Heard:
    """Keeps what a listener is told; `is_full` as a spool would be."""

    def __init__(self) -> None:
        self.events: list[tuple[str, ...]] = []
        self.moves: list[dict[str, Any]] = []
        self.is_full = False

    def __call__(self, *event: str, **move: Any) -> bool:
        if not self.is_full:
            self.events.append(event)
            self.moves.append(move)
        return not self.is_full
