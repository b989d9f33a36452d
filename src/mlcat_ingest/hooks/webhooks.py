"""Receives the webhooks of MLflow servers that run without our hook, as events of the same spool.

MLflow signs what it sends, and repeats a delivery that was not taken, with the same id and time.
Source: `mlflow.webhooks.delivery` of MLflow 3.17. Standard library only.
"""

import base64
import hashlib
import hmac
import json
import logging
import re
import socket
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.hooks.listener import OnEvent, is_own_tag

log = logging.getLogger(__name__)

MAX_BYTES: Final = 1 << 20
"""The largest body that is read."""
WINDOW_S: Final = 300.0
"""How old a delivery may be, and how far ahead of our clock: MLflow's retries take less."""
MAX_IDS: Final = 10_000
"""Ids that are remembered; a delivery that is repeated beyond costs one more drain."""
MAX_S: Final = 10.0
"""Seconds that a request may take to arrive."""
MAX_CONNECTIONS: Final = 16

_SECONDS: Final = re.compile(r"[0-9]{1,15}")
_ALIAS: Final = "model_version_alias"
_ENTITIES: Final = ("registered_model", "model_version", "prompt")
"""What the names of entities begin with; MLflow has no events of MCP servers and skills."""


class Webhooks:
    """Takes deliveries, and tells `on_event` of the registered models in them.

    `read_secret` is called for each: a file with the secret may have changed.
    """

    def __init__(self, read_secret: Callable[[], str | None], on_event: OnEvent) -> None:
        self._read_secret = read_secret
        self._on_event = on_event
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, headers: Message, body: bytes, now_s: float) -> tuple[HTTPStatus, str]:
        """Return the status and the text of the answer to a delivery; safe for several threads.

        An event is written before the answer, so MLflow repeats what was not.
        """
        names = ("Delivery-Id", "Timestamp", "Signature")
        delivery, at, signature = (headers.get(f"X-MLflow-{name}", "") for name in names)
        try:
            secret = (self._read_secret() or "").encode()
        except RecipeError as error:
            log.error("%s", error)  # noqa: TRY400 - one sentence
            return HTTPStatus.SERVICE_UNAVAILABLE, "the secret cannot be read"
        signed = f"{delivery}.{at}.".encode() + body
        digest = hmac.new(secret, signed, hashlib.sha256).digest()
        expected = f"v1,{base64.b64encode(digest).decode()}"
        if not hmac.compare_digest(expected.encode(), signature.encode()):
            return HTTPStatus.UNAUTHORIZED, "the signature is missing, or of another secret"
        if not _SECONDS.fullmatch(at) or abs(now_s - int(at)) > WINDOW_S:
            return HTTPStatus.UNAUTHORIZED, "the delivery is too old, or the clocks differ"
        with self._lock:
            if delivery in self._ids:
                return HTTPStatus.OK, "repeated"
        status, text = self._event(body, int(at))
        if status == HTTPStatus.OK:
            with self._lock:
                self._ids[delivery] = None
                if len(self._ids) > MAX_IDS:
                    self._ids.popitem(last=False)
        return status, text

    def _event(self, body: bytes, signed_s: int) -> tuple[HTTPStatus, str]:
        move: dict[str, Any] = {}
        try:
            payload = json.loads(body)
            entity, data = str(payload["entity"]), payload["data"]
            if not entity.startswith(_ENTITIES) or is_own_tag(data.get("key")):
                return HTTPStatus.OK, "ignored"
            name, run_id = data["name"], data.get("run_id") or ""
            # The workspace that MLflow names need not be that of the model.
            if entity == _ALIAS and "workspace" not in payload:
                version = "" if payload["action"] == "deleted" else str(data["version"])
                at_ms = signed_s * 1000 + 999  # whole seconds
                move = {"alias": str(data["alias"]), "version": version, "at_ms": at_ms}
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            name = run_id = None
        if not (isinstance(name, str) and name and isinstance(run_id, str)):
            return HTTPStatus.BAD_REQUEST, "not a webhook of MLflow"
        if self._on_event(run_id, "", "", name, **move):
            return HTTPStatus.OK, "taken"
        return HTTPStatus.SERVICE_UNAVAILABLE, "the spool cannot be written"


class _Receiver(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024  # MLflow has many deliveries at once; the default resets all but 5

    def __init__(self, address: tuple[str, int], webhooks: Webhooks) -> None:
        super().__init__(address, _Handler)
        self.webhooks = webhooks
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._free.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        del request
        log.debug("a request of %s failed: %s", client_address, sys.exception())


class _Handler(BaseHTTPRequestHandler):
    server: _Receiver

    def setup(self) -> None:
        super().setup()
        self._end = threading.Timer(MAX_S, self._cut)
        self._end.daemon = True
        self._end.start()

    def _cut(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def finish(self) -> None:
        self._end.cancel()
        super().finish()

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            answer = HTTPStatus.LENGTH_REQUIRED, "Content-Length is missing"
        elif len(length) > len(str(MAX_BYTES)) or int(length) > MAX_BYTES:
            answer = HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body exceeds {MAX_BYTES:,} bytes"
        else:
            body = self.rfile.read(int(length))
            if len(body) < int(length):
                return
            answer = self.server.webhooks.take(self.headers, body, time.time())
        status, text = answer
        log.log(logging.DEBUG if status == HTTPStatus.OK else logging.WARNING, "webhook: %s", text)
        content = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        return "mlcat-ingest"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        log.debug(format, *args)


def serve_webhooks(webhooks: Webhooks, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until an exception such as Ctrl-C; `ready` is called with the address.

    Raises:
        RecipeError: the address cannot be bound.
    """
    try:
        server = _Receiver((host, port), webhooks)
    except OSError as error:
        raise RecipeError(
            f"cannot listen on {host}, port {port}: {error.strerror}",
            hint="use another --port, or end the process that has this one",
        ) from error
    with server:
        ready(f"http://{host}:{server.server_port}")
        server.serve_forever()
