"""A catalog service that does next to nothing: it takes every proposal, keeps it and counts.

    python tests/benchmarks/counting_server.py --port 8099 [--record batches.jsonl] [--delay-ms 500]

`GET /counts` tells what arrived, and what that costs DataHub's own server (`server_units.py`).
With `--record` the bodies of ingest requests are kept, a line each, those that are refused left
out. With `--delay-ms` each answer comes so much later, as from a distant service, or a busy one. It
answers what the clients of a run ask: `/config`, ingest, batch reads (aspects as they were sent)
and evaluation (no tests).
"""

import argparse
import asyncio
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.server_units import Proposals, ServerModel

COUNTS: Counter[str] = Counter()
STORED: defaultdict[str, dict[str, Any]] = defaultdict(dict)
RECORD: list[Path] = []
SERVER = ServerModel()
TAKEN: list[tuple[Proposals, bool]] = []
"""The requests that `SERVER` has not counted yet: nobody waits for that before `/counts`."""


async def config(_: Request) -> Response:
    return JSONResponse({"noCode": "true", "statefulIngestionCapable": True})


async def aspects(request: Request) -> Response:
    sent = await request.body()
    body = orjson.loads(sent)
    proposals = body.get("proposals") or [body["proposal"]]
    COUNTS["requests"] += 1
    if (proposals[0].get("headers") or {}).get("If-Version-Match") == "999999999":
        # A run learns by this that versions are checked, as a real service does.
        words = "Expected version 999999999, actual version -1"
        return JSONResponse({"message": words, "status": 422}, status_code=422)
    for path in RECORD:
        with path.open("ab") as file:
            file.write(sent.replace(b"\n", b" ") + b"\n")
    for one in proposals:
        STORED[one["entityUrn"]][one["aspectName"]] = one
    TAKEN.append((proposals, body.get("async") == "true"))
    COUNTS["writes"] += 1
    COUNTS["proposals"] += len(proposals)
    return JSONResponse({"value": "success"})


async def batch_get(request: Request) -> Response:
    COUNTS["requests"] += 1
    asked = orjson.loads(await request.body())
    COUNTS["urns read"] += len(asked)
    return JSONResponse([_stored(one) for one in asked if one["urn"] in STORED])


def _stored(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the aspects that are asked for of an entity, in the form of an OpenAPI read."""
    aspects = STORED[asked["urn"]]
    found: dict[str, Any] = {
        name: {
            "value": orjson.loads(aspects[name]["aspect"]["value"]),
            "systemMetadata": {**(aspects[name].get("systemMetadata") or {}), "version": "1"},
        }
        for name in asked.keys() & aspects.keys()
    }
    return {"urn": asked["urn"], **found}


async def evaluate(request: Request) -> Response:
    COUNTS["requests"] += 1
    asked = orjson.loads(await request.body())
    urns = asked.get("urns") or [asked["urn"]]
    empty: dict[str, list[object]] = {"passing": [], "failing": []}
    if "urns" in asked:
        return JSONResponse({"value": {"results": dict.fromkeys(urns, empty)}})
    return JSONResponse({"value": empty})


async def counts(_: Request) -> Response:
    for proposals, queued in TAKEN:
        SERVER.take(proposals, queued=queued)
    TAKEN.clear()
    return JSONResponse({**COUNTS, **SERVER.units()})


async def anything(request: Request) -> Response:
    COUNTS["requests"] += 1
    if b"AcrossEntities" in await request.body():
        SERVER.happened["search"] += 1
    return JSONResponse({"value": "", "data": {}})


app = Starlette(
    routes=[
        Route("/config", config),
        Route("/aspects", aspects, methods=["POST"]),
        Route("/openapi/v3/entity/{kind}/batchGet", batch_get, methods=["POST"]),
        Route("/test", evaluate, methods=["POST"]),
        Route("/counts", counts),
        Route("/{path:path}", anything, methods=["GET", "POST"]),
    ]
)


class Delayed:
    """The service, some seconds away."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await asyncio.sleep(self._seconds)
        await app(scope, receive, send)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--delay-ms", type=int, default=0)
    chosen = parser.parse_args()
    if chosen.record:
        RECORD.append(chosen.record)
    served = Delayed(chosen.delay_ms / 1000)
    uvicorn.run(served, host="127.0.0.1", port=chosen.port, log_level="warning")
