"""The recipe of an operator, with the sink and the MLflow server of Airflow connections."""

import json
import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from mlcat_ingest.airflow.provider import CONNECTION_TYPE
from mlcat_ingest.airflow.sdk import BaseHook
from mlcat_ingest.core.redaction import redact_urls
from mlcat_ingest.errors import MlcatError, RecipeError
from mlcat_ingest.recipe.model import Recipe, SinkSpec
from mlcat_ingest.recipe.secrets import SECRETS
from mlcat_ingest.workflows.resolve import service_sink

_HTTP_TYPES: Final = frozenset(
    {"", "generic", "http", "https", "mlflow", "datahub_rest", CONNECTION_TYPE}
)
_HTTP_CURE: Final = "use a connection of type `http`, whose host is the server's address"
_CURES: Final = {
    "databricks": "omit `mlflow_conn_id`: set `tracking_uri: databricks` in the recipe, and "
    "DATABRICKS_HOST and DATABRICKS_TOKEN on the workers",
    **dict.fromkeys(
        ("mssql", "mysql", "postgres", "sqlite"),
        f"{_HTTP_CURE}; MLflow's database is read if the recipe's `tracking_uri` names it",
    ),
}
"""What to use in place of connections that are not over HTTP, by their type."""


class MlcatHook(BaseHook):
    """A catalog service by its connection, of type `mlcat` or `datahub_rest`."""

    conn_name_attr = "mlcat_conn_id"
    default_conn_name = "mlcat_default"
    conn_type = CONNECTION_TYPE
    hook_name = "Metadata catalog (mlcat-ingest)"

    def __init__(self, mlcat_conn_id: str = default_conn_name) -> None:
        """Look the connection of this id up, once it is needed."""
        super().__init__()
        self._conn_id = mlcat_conn_id

    def sink_config(self) -> dict[str, Any]:
        """Return the configuration of a sink of type `rest`; its secrets are masked from now on.

        Raises:
            RecipeError: the connection names no server, or something in it is wrong.
        """
        connection = self.get_connection(self._conn_id)
        extra = _extra_of(connection, self._conn_id)
        # Empty is none: a token of the environment belongs to another server.
        token = connection.password or extra.pop("token", None) or ""
        config = {key: _parsed(value) for key, value in extra.items() if value not in (None, "")}
        if "server" in config:
            raise RecipeError(
                f"the Airflow connection {self._conn_id!r} has `server` in its extra",
                hint="delete it: the connection's host is the address",
            )
        config |= {"server": _server_of(connection, self._conn_id), "token": token}
        service_sink(config, f"Airflow connection {self._conn_id}")
        return config

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the service accepts the connection, and the problem if not."""
        try:
            with closing(service_sink({**self.sink_config(), "retry_for_s": 0}).build()) as sink:
                failed = [finding for finding in sink.check() if finding.outcome == "failed"]
        except MlcatError as error:
            return False, SECRETS.mask(str(error))
        problems = (": ".join(filter(None, (finding.what, finding.detail))) for finding in failed)
        return not failed, SECRETS.mask("; ".join(problems)) or "The catalog responded"


def mlflow_variables(conn_id: str) -> Mapping[str, str]:
    """Return MLflow's own variables for the server of a connection, of type `http` say.

    A recipe takes from them what it names: `tracking_uri: "${MLFLOW_TRACKING_URI}"`. What the
    connection lacks is empty: the environment's may be those of another server.
    """
    connection = BaseHook.get_connection(conn_id)
    token = _extra_of(connection, conn_id).get("token")
    SECRETS.add(*(secret for secret in (connection.password, token) if secret))
    variables = {
        "MLFLOW_TRACKING_URI": _server_of(connection, conn_id),
        "MLFLOW_TRACKING_USERNAME": connection.login,
        "MLFLOW_TRACKING_PASSWORD": connection.password,
        "MLFLOW_TRACKING_TOKEN": token,
    }
    return {name: str(value or "") for name, value in variables.items()}


def _extra_of(connection: Any, conn_id: str) -> dict[str, Any]:
    extra = connection.extra_dejson
    if not isinstance(extra, dict):
        raise RecipeError(
            f"the extra of the Airflow connection {conn_id!r} is not a mapping",
            hint='write a JSON object, such as {"timeout_s": 30}',
        )
    return dict(extra)


def _parsed(value: Any) -> Any:
    """Return the mapping or list that a text in JSON holds, as the query of a URI does."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _server_of(connection: Any, conn_id: str) -> str:
    kind = (connection.conn_type or "").replace("-", "_").lower()
    if kind not in _HTTP_TYPES:
        raise RecipeError(
            f"the Airflow connection {conn_id!r} has the type {kind!r}, not that of a server over "
            "HTTP",
            hint=_CURES.get(kind, _HTTP_CURE),
        )
    host, schema = ((text or "").strip() for text in (connection.host, connection.schema))
    if not host:
        raise RecipeError(
            f"the Airflow connection {conn_id!r} has no host",
            hint="set its host to an address, such as https://catalog.example.com",
        )
    try:
        return _address(kind, host, schema, connection.port)
    except ValueError:
        raise RecipeError(
            f"the Airflow connection {conn_id!r} has no clear address: its type is {kind!r}, its "
            f"host {redact_urls(host)!r}, its schema {schema!r}, its port {connection.port}",
            hint="set its host to the whole address, such as https://catalog.example.com/gms, and "
            "leave schema and port empty",
        ) from None


def _address(kind: str, host: str, schema: str, port: int | None) -> str:
    """Return the address that a connection spells as one text, or in the parts of a URI.

    No part is ignored. The type `https` is a scheme; `http` is the type of every server over HTTP.

    Raises:
        ValueError: two parts differ, a schema is neither a scheme nor below one that is known, or
            `host` is none.
    """
    if host.count(":") > 1 and not {"[", "/"} & set(host):
        host = f"[{host}]"  # an IPv6 address, which Airflow takes out of its brackets
    parts = urlsplit(host if "://" in host else f"//{host}")
    word = schema.lower().removesuffix("://")
    path = "" if word in {"http", "https"} else schema.strip("/")
    named = {parts.scheme, "" if path else word, kind if kind == "https" else ""} - {""}
    if len(named) > 1 or (path and not named) or (port and parts.port not in {None, port}):
        raise ValueError(host)
    netloc = parts.netloc if parts.port or not port else f"{parts.netloc}:{port}"
    below = f"{parts.path.rstrip('/')}/{path}" if path else parts.path
    scheme = named.pop() if named else "http"
    return urlunsplit(parts._replace(scheme=scheme, netloc=netloc, path=below))


RecipeSource = str | Mapping[str, Any]
INLINE: Final = "inline recipe"
"""What messages call a recipe that is given without a file."""


def recipe_of(given: RecipeSource, conn_id: str | None, mlflow_conn_id: str | None) -> Recipe:
    """Return the recipe that `given` is the path or the text of, or is itself.

    `conn_id` is the catalog it writes to, and `mlflow_conn_id` fills variables of MLflow.

    Raises:
        RecipeError: it cannot be read, something in it is wrong, or it says where to write although
            a connection does.
    """
    environ = dict(os.environ)
    if mlflow_conn_id:
        environ.update(mlflow_variables(mlflow_conn_id))
    if not isinstance(given, str):
        recipe = Recipe.parse(json.dumps(given), label=INLINE, environ=environ)
    elif "\n" in given or given.lstrip().startswith("{"):
        recipe = Recipe.parse(given, label=INLINE, environ=environ)
    else:
        recipe = Recipe.load(Path(given), environ)
    if conn_id is None:
        return recipe
    sink = recipe.sink
    names_catalog = sink is not None and (
        sink.type not in {"rest", "datahub-rest"} or {"server", "token"} & sink.config.keys()
    )
    if names_catalog:
        raise RecipeError(
            f"the recipe {recipe.name!r} and the Airflow connection {conn_id!r} both set a catalog",
            hint="delete `server` and `token` in the recipe's sink, or omit the connection",
        )
    config = {**({} if sink is None else sink.config), **MlcatHook(conn_id).sink_config()}
    return recipe.model_copy(update={"sink": SinkSpec(type="rest", config=config)})
