"""DataHub's MCP server in a process and an environment of its own, spoken to as assistants do."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.venvs import Venv

PROTOCOL = "2025-06-18"


@dataclass(slots=True)
class McpClient:
    """A session over standard input and output: JSON-RPC 2.0, one message a line."""

    process: "subprocess.Popen[str]"
    log: Path
    catalog_url: str
    _last_id: int = field(default=0, init=False)

    def call(self, tool: str, **arguments: Any) -> Any:
        """Return what a tool answers; an error of the tool fails the test."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        assert not result.get("isError"), result["content"]
        structured = result["structuredContent"]
        return structured["result"] if structured.keys() == {"result"} else structured

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result."""
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self._last_id:
                assert "error" not in message, message["error"]
                result: dict[str, Any] = message["result"]
                return result
        raise AssertionError(f"the MCP server ended: {self.log.read_text()[-2000:]}")

    def notify(self, method: str) -> None:
        """Send a message that nobody answers."""
        self._send({"method": method})

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()


@contextmanager
def mcp_client(venv: Venv, catalog_url: str, home: Path) -> Iterator[McpClient]:
    """Start the server against the catalog at `catalog_url`, and end it with the block."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("DATAHUB_")},
        "HOME": str(home),
        "DATAHUB_GMS_URL": catalog_url,
        "DATAHUB_TELEMETRY_ENABLED": "false",
        "TOOLS_IS_USER_ENABLED": "true",
        "TOOLS_IS_MUTATION_ENABLED": "true",
    }
    log = home / "mcp-server.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [str(venv.python), "-m", "mcp_server_datahub"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        ) as process,
    ):
        try:
            client = McpClient(process, log, catalog_url)
            about = {"name": "tests", "version": "1"}
            client.request(
                "initialize",
                {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": about},
            )
            client.notify("notifications/initialized")
            yield client
        finally:
            process.kill()
