"""The tests of `tests/live` pass on the embedded catalog, which answers as DataHub does."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from support.catalog_server import running_catalog

pytestmark = pytest.mark.timeout(900)

ROOT: Final = Path(__file__).parents[3]
FULL: Final = "secret"
LIMITED: Final = "limited"


@dataclass(frozen=True)
class Privileges:
    """Knows a second token, whose user may not view groups of models, and delete nothing."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.app
        headers = dict(scope.get("headers", ()))
        if headers.get(b"authorization") == f"Bearer {LIMITED}".encode():
            if (action := denied_action(scope)) is not None:
                error = f"urn:li:corpuser:limited is unauthorized to {action} entities."
                app = JSONResponse({"error": error}, 403)
            headers[b"authorization"] = f"Bearer {FULL}".encode()
            scope = {**scope, "headers": list(headers.items())}
        await app(scope, receive, send)


def denied_action(scope: Scope) -> str | None:
    if scope["method"] == "DELETE":
        return "DELETE"
    is_batch = scope["path"].lower() == "/openapi/v3/entity/mlmodelgroup/batchget"
    return "READ" if is_batch else None


def test_the_live_tests_pass(tmp_path: Path) -> None:
    with running_catalog(tmp_path / "catalog.db", token=FULL, around=Privileges) as catalog:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/live"],
            cwd=ROOT,
            env={
                **os.environ,
                "MLCAT_LIVE_GMS": catalog.url,
                "MLCAT_LIVE_TOKEN": FULL,
                "MLCAT_LIVE_TOKEN_LIMITED": LIMITED,
            },
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout
