"""The catalog as a process: it announces itself, dies with its parent, and loses nothing."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from mlcat_ingest.catalog.server.lock import Running, read_lock
from mlcat_ingest.catalog.store.store import Store

SERVE = """
import sys
from mlcat_ingest.catalog.server.serve import serve
serve(sys.argv[1], sys.argv[2], 0, token=sys.argv[3], ready=lambda r: print(r.url, flush=True))
"""
EVERYWHERE = "0.0.0.0"  # noqa: S104 - behind a token
CHILD = [sys.executable, "-m", "mlcat_ingest.catalog.server.child"]


def model(name: str) -> str:
    return f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{name},PROD)"


def proposal(name: str, value: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "entityType": "mlModel",
        "entityUrn": model(name),
        "changeType": "UPSERT",
        "aspect": value,
        **more,
    }


@contextmanager
def serving(
    database: Path, host: str = "127.0.0.1", token: str = ""
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-c", SERVE, str(database), host, token]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def child(order: dict[str, Any]) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    with subprocess.Popen(CHILD, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, -2), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_cleanly(tmp_path: Path, sign: int, code: int) -> None:
    with serving(tmp_path / "c.db") as (process, url):
        assert requests.get(f"{url}/health", timeout=30).status_code == 200
        assert read_lock(tmp_path / "c.db") == Running(process.pid, url)
        process.send_signal(sign)
        assert process.wait(30) == code
    assert read_lock(tmp_path / "c.db") is None
    assert not (tmp_path / "c.db-wal").exists()


def test_it_listens_elsewhere_with_a_token(tmp_path: Path) -> None:
    with serving(tmp_path / "c.db", EVERYWHERE, "secret") as (process, url):
        assert url.startswith("http://127.0.0.1:")
        assert requests.get(f"{url}/metrics", timeout=30).status_code == 401
        assert read_lock(tmp_path / "c.db") == Running(process.pid, url, needs_token=True)
        assert "secret" not in (tmp_path / "c.db.lock").read_text()


def test_it_listens_on_ipv6(tmp_path: Path) -> None:
    if not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    with serving(tmp_path / "c.db", "::1") as (_, url):
        assert url.startswith("http://[::1]:")
        assert requests.get(f"{url}/health", timeout=30).status_code == 200


def test_a_child_ends_with_its_parent_and_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    database = tmp_path / "c.db"
    with child({"database": str(database), "token": "secret"}) as (process, message):
        assert message == {
            "pid": process.pid,
            "url": message["url"],
            "needs_token": True,
            "dies_with_parent": True,
        }
        with child({"database": str(database)}) as (second, refusal):
            assert message["url"] in refusal["error"]
            assert refusal["hint"].startswith("use or stop")
            assert second.wait(30) == 1
        answer = requests.post(
            f"{message['url']}/aspects?action=ingestProposal",
            json={"proposal": proposal("m", {"type": "a"})},
            headers={"Authorization": "Bearer secret"},
            timeout=30,
        )
        assert answer.status_code == 200
        assert process.stdin is not None
        process.stdin.write(b"what is said later is not listened to\n")
        process.stdin.close()
        assert process.wait(30) == 0
    with closing(Store.open(database)) as store:
        assert store.exists([model("m")]) == {model("m")}


def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    code = (
        "import json, subprocess, sys, time;"
        "p = subprocess.Popen([sys.executable, '-m', 'mlcat_ingest.catalog.server.child'],"
        " stdin=subprocess.PIPE);"
        "p.stdin.write(json.dumps({'database': sys.argv[1]}).encode() + b'\\n'); p.stdin.flush();"
        "time.sleep(600)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "c.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert json.loads(parent.stdout.readline())["dies_with_parent"] is True
        parent.kill()
        # The child holds the other end of the pipe that it printed to: its end is the end of that.
        assert parent.stdout.read() == b""
    assert read_lock(tmp_path / "c.db") is None
