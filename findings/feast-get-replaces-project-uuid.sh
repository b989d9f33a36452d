#!/usr/bin/env bash
# Feast 0.67.0, registry in a file, served by its REST server (`feast serve_registry --rest-api`).
#
# Behaviour: a GET request for one object writes the registry file, and the UUID of the project,
# `project_metadata.project_uuid`, is replaced for good by JSON about who looked at what. The store
# of files has no place for such data, and keeps it in the UUID (`FileRegistryStore.set_project_metadata`).
# A registry in a database keeps its UUID.
#
# Consequence: the UUID tells registries apart only as long as nobody has looked at one, and a file
# that only readers use changes its version, its time and its digest.
#
# Output seen:
#   before: uuid
#   GET /api/v1/entities/driver: 200
#   after: recently_visited_anonymous
#   the file was written: True
#
# Exits with 1 if that changes. Needs Python 3.11 and a package index; installs into a temporary folder.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet 'feast[grpcio]==0.67.0' 'fastapi==0.136.3'
mkdir -p "$work/repo/data"
cat >"$work/repo/feature_store.yaml" <<'YAML'
project: rides
provider: local
registry: data/registry.db
online_store: {type: sqlite, path: data/online.db}
entity_key_serialization_version: 3
YAML
cd "$work"
PYTHONWARNINGS=ignore "$work/venv/bin/python" - <<'PYTHON'
import asyncio
import json
import pathlib
import sys
import uuid

from feast import Entity, FeatureStore, ValueType
from feast.api.registry.rest.rest_registry_server import RestRegistryServer
from feast.protos.feast.core.Registry_pb2 import Registry

path = pathlib.Path("repo/data/registry.db")


def project_uuid() -> str:
    (metadata,) = Registry.FromString(path.read_bytes()).project_metadata
    try:
        uuid.UUID(metadata.project_uuid)
    except ValueError:
        return ", ".join(json.loads(metadata.project_uuid))
    return "uuid"


async def get(app, address: str, query: bytes) -> int:
    sent = []
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET",
        "scheme": "http", "path": address, "raw_path": address.encode(), "root_path": "",
        "query_string": query, "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"]


store = FeatureStore(repo_path="repo")
driver = Entity(name="driver", join_keys=["driver_id"], value_type=ValueType.INT64)
store.registry.apply_entity(driver, "rides")
before, content = project_uuid(), path.read_bytes()
print("before:", before)
status = asyncio.run(get(RestRegistryServer(store).app, "/api/v1/entities/driver", b"project=rides"))
print("GET /api/v1/entities/driver:", status)
after, written = project_uuid(), path.read_bytes() != content
print("after:", after)
print("the file was written:", written)
seen = (before, status, after, written)
sys.exit(seen != ("uuid", 200, "recently_visited_anonymous", True))
PYTHON
