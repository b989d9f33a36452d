"""The recipe of an operator, with the sink and the MLflow server of Airflow connections."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from airflow.sdk import BaseHook

from mlcat_ingest.airflow.provider import CONNECTION_TYPE
from mlcat_ingest.client.config import RestSinkConfig
from mlcat_ingest.client.rest.catalog import RestCatalog
from mlcat_ingest.errors import MlcatError, RecipeError
from mlcat_ingest.recipe.model import Recipe, SinkSpec
from mlcat_ingest.recipe.secrets import SECRETS

_NOT_OF_THE_SINK: Final = frozenset({"ui_url"})


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
        """Return the configuration of a sink of type `rest`; its token is masked from now on.

        Raises:
            RecipeError: the connection names no server.
        """
        connection = self.get_connection(self._conn_id)
        extra = _extra_of(connection)
        token = connection.password or extra.pop("token", None)
        config = {
            key: value
            for key, value in extra.items()
            if key not in _NOT_OF_THE_SINK and value not in {None, ""}
        }
        config["server"] = _server_of(connection, self._conn_id)
        # Empty is none: a token of the environment belongs to another server.
        config["token"] = token or ""
        if token:
            SECRETS.add(token)
        return config

    def page(self) -> str:
        """Return the address of the catalog's pages."""
        connection = self.get_connection(self._conn_id)
        given = _extra_of(connection).get("ui_url")
        return str(given or _server_of(connection, self._conn_id))

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the service accepts the connection, and the problem if not."""
        try:
            config = {**self.sink_config(), "retry_for_s": 0}
            sink = RestCatalog(RestSinkConfig.model_validate(config))
            try:
                failed = [finding for finding in sink.check() if finding.outcome == "failed"]
            finally:
                sink.close()
        except (MlcatError, ValueError) as error:
            return False, SECRETS.mask(str(error))
        problems = (": ".join(filter(None, (finding.what, finding.detail))) for finding in failed)
        return not failed, SECRETS.mask("; ".join(problems)) or "The catalog responded"


def mlflow_variables(conn_id: str) -> Mapping[str, str]:
    """Return MLflow's own variables for the server of a connection, of type `http` say.

    A recipe takes from them what it names: `tracking_uri: "${MLFLOW_TRACKING_URI}"`.
    """
    connection = BaseHook.get_connection(conn_id)
    token = _extra_of(connection).get("token")
    variables = {
        "MLFLOW_TRACKING_URI": _server_of(connection, conn_id),
        "MLFLOW_TRACKING_USERNAME": connection.login,
        "MLFLOW_TRACKING_PASSWORD": connection.password,
        "MLFLOW_TRACKING_TOKEN": token,
    }
    SECRETS.add(*(secret for secret in (connection.password, token) if secret))
    return {name: str(value) for name, value in variables.items() if value}


def _extra_of(connection: Any) -> dict[str, Any]:
    return dict(connection.extra_dejson)


def _server_of(connection: Any, conn_id: str) -> str:
    """Return the address that a connection spells as one text, or in the parts of a URI."""
    host = connection.host or ""
    if not host:
        raise RecipeError(
            f"the Airflow connection {conn_id!r} has no host",
            hint="set its host to an address, such as https://catalog.example.com",
        )
    if "://" not in host:
        host = f"{connection.schema or 'http'}://{host}"
    parts = urlsplit(host)
    if connection.port and parts.port is None:
        parts = parts._replace(netloc=f"{parts.netloc}:{connection.port}")
    return urlunsplit(parts)


RecipeSource = str | Mapping[str, Any]


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
        recipe = Recipe.parse(json.dumps(given), label="inline recipe", environ=environ)
    elif "\n" in given or given.lstrip().startswith("{"):
        recipe = Recipe.parse(given, label="inline recipe", environ=environ)
    else:
        recipe = Recipe.load(Path(given), environ)
    return recipe if conn_id is None else _into(recipe, conn_id)


def _into(recipe: Recipe, conn_id: str) -> Recipe:
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
