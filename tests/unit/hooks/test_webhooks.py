"""Deliveries of webhooks: which are taken, and which are refused."""

import hashlib
import hmac
import json
from base64 import b64encode
from collections.abc import Callable
from email.message import Message
from typing import Any

import pytest

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.hooks import webhooks as webhooks_module
from mlcat_ingest.hooks.webhooks import Webhooks
from support.webhooks import ALIAS, NOW_S, Heard, signed


def test_a_delivery_is_taken_once_however_often_it_comes() -> None:
    heard = Heard()
    receiver, body = Webhooks(lambda: "s", heard), json.dumps(ALIAS).encode()
    for delivery in ("d1", "d1", "d2"):
        assert receiver.take(signed(body, delivery), body, NOW_S + 200)[0] == 200
    assert heard.events == [("", "", "", "m")] * 2


def test_what_could_not_be_written_is_taken_when_it_comes_again() -> None:
    heard = Heard()
    receiver, body = Webhooks(lambda: "s", heard), json.dumps(ALIAS).encode()
    heard.is_full = True
    assert receiver.take(signed(body), body, NOW_S)[0] == 503
    heard.is_full = False
    assert receiver.take(signed(body), body, NOW_S)[0] == 200
    assert len(heard.events) == 1


def test_a_secret_that_was_replaced_is_read_again() -> None:
    secrets, heard, body = ["s", "s", "new"], Heard(), json.dumps(ALIAS).encode()

    def read() -> str:
        if not secrets:
            raise RecipeError("--secret-file: cannot read it")
        return secrets.pop()

    receiver = Webhooks(read, heard)
    assert receiver.take(signed(body, "d1", secret="new"), body, NOW_S)[0] == 200
    assert receiver.take(signed(body, "d2", secret="new"), body, NOW_S)[0] == 401
    assert receiver.take(signed(body, "d3"), body, NOW_S)[0] == 200
    assert receiver.take(signed(body, "d4"), body, NOW_S)[0] == 503
    assert len(heard.events) == 2


@pytest.mark.parametrize("at", ["9" * 5000, "1" * 16, "-1", "", "1.5", "\u0661"])
def test_a_delivery_of_no_time_is_refused(at: str) -> None:
    body = json.dumps(ALIAS).encode()
    headers = signed(body)
    digest = hmac.new(b"s", f"d1.{at}.".encode() + body, hashlib.sha256).digest()
    for name, text in (("timestamp", at), ("signature", f"v1,{b64encode(digest).decode()}")):
        headers.replace_header(f"x-mlflow-{name}", text)
    assert Webhooks(lambda: "s", Heard()).take(headers, body, NOW_S)[0] == 401


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        (lambda body: signed(body, secret="other"), "signature"),
        (lambda body: signed(body + b" "), "signature"),
        (lambda _: Message(), "signature"),
        (lambda body: signed(body, at_s=NOW_S - 301), "too old"),
        (lambda body: signed(body, at_s=NOW_S + 301), "clocks"),
    ],
)
def test_what_mlflow_has_not_signed_just_now_is_refused(
    headers: Callable[[bytes], Message], why: str
) -> None:
    heard, body = Heard(), json.dumps(ALIAS).encode()
    status, text = Webhooks(lambda: "s", heard).take(headers(body), body, NOW_S)
    assert status == 401
    assert why in text
    assert heard.events == []


@pytest.mark.parametrize(
    ("payload", "status", "events"),
    [
        ({"data": {"name": "m", "key": "mlcat.tests"}, "entity": "model_version_tag"}, 200, 0),
        ({"data": {"name": "p"}, "entity": "prompt"}, 200, 1),
        ({"data": {"name": "p", "version": "1"}, "entity": "prompt_version"}, 200, 1),
        ({"data": {"budget": 1}, "entity": "budget_policy"}, 200, 0),
        ({"data": {"name": "m"}, "entity": "registered_model"}, 200, 1),
        ({"data": {"name": "m", "run_id": None}, "entity": "model_version"}, 200, 1),
        ({"data": {"name": ""}, "entity": "model_version"}, 400, 0),
        ({"data": {"name": 3}, "entity": "model_version"}, 400, 0),
        ({"data": {"name": "m", "run_id": 3}, "entity": "model_version"}, 400, 0),
        ({"data": {"name": "m", "alias": "a"}, "entity": "model_version_alias"}, 400, 0),
        ({"data": [], "entity": "model_version"}, 400, 0),
        ({"entity": "model_version"}, 400, 0),
        ([], 400, 0),
        *[(body, 400, 0) for body in (b"", b"\xff", b"[" * 100_000)],
    ],
)
def test_only_registered_models_and_prompts_are_events(
    payload: Any, status: int, events: int
) -> None:
    heard, body = Heard(), payload
    if not isinstance(payload, bytes):
        body = json.dumps(payload).encode()
    assert Webhooks(lambda: "s", heard).take(signed(body), body, NOW_S)[0] == status
    assert len(heard.events) == events


@pytest.mark.parametrize(("action", "version"), [("created", "1"), ("deleted", "")])
def test_the_move_of_an_alias_was_before_mlflow_signed_it(action: str, version: str) -> None:
    heard, at_ms = Heard(), int(NOW_S) * 1000 + 999
    # The workspace that MLflow names need not be that of the model.
    for workspace in ({}, {"workspace": "team"}):
        body = json.dumps({**ALIAS, "action": action, **workspace}).encode()
        Webhooks(lambda: "s", heard).take(signed(body), body, NOW_S)
    assert heard.moves == [{"alias": "champion", "version": version, "at_ms": at_ms}, {}]


def test_few_ids_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks_module, "MAX_IDS", 3)
    heard, body = Heard(), json.dumps(ALIAS).encode()
    receiver = Webhooks(lambda: "s", heard)
    for delivery in ("a", "b", "c", "d", "d", "a"):
        receiver.take(signed(body, delivery), body, NOW_S)
    assert len(heard.events) == 5
