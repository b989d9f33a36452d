"""A proxy that counts what a server is asked, so that budgets hold by what the server sees."""

import http
import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_OF_ONE_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "host"})


@dataclass
class CountingProxy:
    """Passes requests to one server on; `seen` has method and path of each, in order.

    `refused` has those that the server answered with a status of 400 or more.
    """

    url: str
    seen: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def take(self) -> list[str]:
        """Return what was seen since the last call."""
        found, self.seen = self.seen, []
        return found


@contextmanager
def counting_proxy(server: str) -> Iterator[CountingProxy]:
    """Give a proxy in front of the server at the address `server`, until the block ends."""
    target = urlsplit(server)
    proxy = CountingProxy("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            proxy.seen.append(f"{self.command} {self.path}")
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _OF_ONE_CONNECTION}
            upstream = http.client.HTTPConnection(target.hostname or "", target.port, timeout=120)
            try:
                upstream.request(self.command, self.path, body, headers)
                answer = upstream.getresponse()
                content = answer.read()
            finally:
                upstream.close()
            if answer.status >= http.HTTPStatus.BAD_REQUEST:
                proxy.refused.append(f"{self.command} {urlsplit(self.path).path}")
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in {*_OF_ONE_CONNECTION, "content-length"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = do_PUT = do_PATCH = do_HEAD = handle_any  # noqa: N815 - names of http.server

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server_here:
        server_here.daemon_threads = True
        thread = threading.Thread(target=server_here.serve_forever, args=(0.02,))
        thread.start()
        proxy.url = f"http://127.0.0.1:{server_here.server_address[1]}"
        try:
            yield proxy
        finally:
            server_here.shutdown()
            thread.join()
