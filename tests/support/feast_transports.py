"""The registry that is kept for tests, in places where Feast keeps one; none of them runs Feast."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.registry import RawObject, RegistryTransport
from mlcat_ingest.sources.feast.source import transport_for
from support.feast import REGISTRY

Answering = Callable[[str, Mapping[str, str], Any], bytes | None]
"""Answers a method from its name, the request's metadata and gRPC's context; None: not known."""

_METHODS = {
    "ListProjectMetadata": "project_metadata",
    "ListProjects": "project",
    "ListEntities": "entity",
    "ListDataSources": "data_source",
    "ListFeatureViews": "feature_view",
    "ListStreamFeatureViews": "stream_feature_view",
    "ListOnDemandFeatureViews": "on_demand_feature_view",
    "ListLabelViews": "label_view",
    "ListFeatureServices": "feature_service",
}


_TABLES = {
    "project": ("projects", "project_name", "project_proto"),
    "entity": ("entities", "entity_name", "entity_proto"),
    "data_source": ("data_sources", "data_source_name", "data_source_proto"),
    "feature_view": ("feature_views", "feature_view_name", "feature_view_proto"),
    "stream_feature_view": ("stream_feature_views", "feature_view_name", "feature_view_proto"),
    "on_demand_feature_view": (
        *("on_demand_feature_views", "feature_view_name"),
        "feature_view_proto",
    ),
    "label_view": ("label_views", "feature_view_name", "feature_view_proto"),
    "feature_service": ("feature_services", "feature_service_name", "feature_service_proto"),
}


@cache
def _stored() -> list[RawObject]:
    return objects_of(str(REGISTRY))


def listing(method: str) -> bytes | None:
    """Return what a server of the registry that is kept for tests answers."""
    if method not in _METHODS:
        return None
    return b"".join(field_of(1, raw.proto) for raw in _stored() if raw.kind == _METHODS[method])


def field_of(number: int, content: bytes) -> bytes:
    """Return a field of a message, of up to 256 MiB."""
    tag, length = number << 3 | 2, len(content)
    sizes = [length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14 & 0x7F | 0x80]
    return bytes([tag & 0x7F | 0x80, tag >> 7, *sizes, length >> 21]) + content


def transport_of(registry: object, **options: Any) -> RegistryTransport:
    """Return what fetches `registry`, as a recipe would say it."""
    return transport_for(FeastConfig.model_validate({"registry": registry, **options}))


def objects_of(registry: object, **options: Any) -> list[RawObject]:
    """Return the objects of a registry, sorted."""
    with closing(transport_of(registry, **options)) as transport:
        return in_order(transport.objects())


def in_order(objects: Iterator[RawObject]) -> list[RawObject]:
    """Return objects by kind, project and name."""
    return sorted(objects, key=lambda raw: (raw.kind, raw.project, raw.name))


def database_of(objects: Iterable[RawObject], path: Path) -> str:
    """Return the address of a new registry database that holds `objects`."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for kind, (table, name, proto) in _TABLES.items():
            connection.execute(f"CREATE TABLE {table} (project_id, {name}, {proto})")
            rows = [(raw.project, raw.name, raw.proto) for raw in objects if raw.kind == kind]
            connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
        columns = "project_id, metadata_key, metadata_value, last_updated_timestamp"
        connection.execute(f"CREATE TABLE feast_metadata ({columns})")
        ids = [(one.project, one.name) for one in objects if one.kind == "project_metadata"]
        connection.executemany("INSERT INTO feast_metadata VALUES (?, 'project_uuid', ?, 1)", ids)
    return f"sqlite:///{path}"


@contextmanager
def grpc_server(answer: Answering, *, certificate: Path | None = None) -> Iterator[int]:
    """Serve `answer` as a registry server; gives the port on the loopback interface."""

    import grpc

    class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
        def service(self, call: Any) -> Any:
            method = call.method.rpartition("/")[2]

            def respond(_request: bytes, context: Any) -> bytes:
                found = answer(method, dict(context.invocation_metadata()), context)
                if found is None:
                    context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such method")
                    raise AssertionError
                return found

            # Without serializers, bytes go in and out as they are.
            return grpc.unary_unary_rpc_method_handler(respond)

    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool, options=[("grpc.max_send_message_length", -1)])
        server.add_generic_rpc_handlers((Handler(),))
        if certificate is None:
            port = server.add_insecure_port("127.0.0.1:0")
        else:
            pem = certificate.read_bytes()
            credentials = grpc.ssl_server_credentials([(pem, pem)])
            port = server.add_secure_port("127.0.0.1:0", credentials)
        server.start()
        try:
            yield port
        finally:
            server.stop(None).wait()
