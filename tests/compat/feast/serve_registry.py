"""Serves the registries that are kept for tests by Feast itself, and says what Feast reads in them.

Run by the Python of an environment with Feast, in a folder with copies of both registries. Writes
one line of JSON, and serves until its input ends.
"""

import base64
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from feast import FeatureStore, RepoConfig
from feast.protos.feast.core import Registry_pb2
from feast.protos.feast.registry import RegistryServer_pb2_grpc
from feast.registry_server import RegistryServer

PROJECT = "rides"


def store_of(registry: dict[str, Any]) -> FeatureStore:
    config = RepoConfig(
        project=PROJECT,
        provider="local",
        registry=registry,
        online_store={"type": "sqlite", "path": "online.db"},
        entity_key_serialization_version=3,
    )
    return FeatureStore(config=config)


def text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def objects_of(store: FeatureStore) -> dict[str, dict[str, str]]:
    """Return Feast's own objects as Feast writes them, by kind and name."""
    registry = store.registry
    listed: dict[str, Any] = {
        "project": registry.list_projects(),
        "entity": registry.list_entities(PROJECT),
        "data_source": registry.list_data_sources(PROJECT),
        "feature_view": registry.list_feature_views(PROJECT),
        "stream_feature_view": registry.list_stream_feature_views(PROJECT, skip_udf=True),
        "on_demand_feature_view": registry.list_on_demand_feature_views(PROJECT, skip_udf=True),
        "label_view": registry.list_label_views(PROJECT),
        "feature_service": registry.list_feature_services(PROJECT),
    }
    metadata = registry.list_project_metadata(PROJECT)
    return {
        "project_metadata": {
            one.project_uuid: text(one.to_proto().SerializeToString()) for one in metadata
        },
        **{
            kind: {one.name: text(one.to_proto().SerializeToString()) for one in objects}
            for kind, objects in listed.items()
        },
    }


def definitions() -> list[str]:
    """Return the files that define the registry's messages, each after those that it needs."""
    found: dict[str, bytes] = {}

    def visit(file: Any) -> None:
        for needed in file.dependencies:
            visit(needed)
        found.setdefault(file.name, file.serialized_pb)

    visit(Registry_pb2.DESCRIPTOR)
    return [text(content) for content in found.values()]


def main() -> None:
    file = store_of({"registry_type": "file", "path": "registry.db"})
    database = store_of(
        {"registry_type": "sql", "path": f"sqlite:///{Path('registry.sqlite').resolve()}"}
    )
    grpc_server = grpc.server(ThreadPoolExecutor(2))
    RegistryServer_pb2_grpc.add_RegistryServerServicer_to_server(
        RegistryServer(file.registry, store=file), grpc_server
    )
    port = grpc_server.add_insecure_port("127.0.0.1:0")
    grpc_server.start()
    message = {
        "grpc": port,
        "file": objects_of(file),
        "sql": objects_of(database),
        "definitions": definitions(),
    }
    print(json.dumps(message), flush=True)
    sys.stdin.read()
    grpc_server.stop(None)


main()
