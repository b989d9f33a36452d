"""Tracking URIs, their kinds and normal form, and links to the pages of MLflow's UI."""

import os
import re
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from mlcat_ingest.core.redaction import redact_url

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_HTTP: Final = ("http://", "https://")
_SCHEME: Final = re.compile(r"(arn(?=:)|[a-z][a-z0-9+.-]*(?=://))", re.IGNORECASE)
_NO_PATH: Final = re.compile(r"[a-z][a-z0-9+.-]+:/|arn:", re.IGNORECASE)
"""How addresses begin: a scheme, with one slash too, or a name of AWS, as of SageMaker's servers.
One letter is a drive."""
_SCHEMES: Final = (
    *("http", "https", "file", "databricks", "databricks-uc", "uc"),
    *("sqlite", "postgresql", "postgres", "mysql", "mssql"),
)
_PLUGINS: Final = ("mlflow.tracking_store", "mlflow.model_registry_store")
"""Entry points by which further packages bring MLflow schemes of their own."""
_PACKAGES: Final = {"arn": "sagemaker-mlflow", "azureml": "azureml-mlflow"}
"""The packages of plug-ins, by their schemes."""

_DATABASE: Final = re.compile(r"(sqlite|postgresql|postgres|mysql|mssql)(\+\w+)?:", re.IGNORECASE)


def with_known_scheme(uri: str) -> str:
    """Return `uri`, if MLflow or an installed plug-in of it can open addresses of its scheme.

    Raises:
        ValueError: its scheme is unknown; the message names the package of its plug-in, or lists
            the known schemes.
    """
    match = _SCHEME.match(uri)
    if match is None or is_database(uri):
        return uri
    scheme = match[1].lower()
    # Looking for plug-ins reads the metadata of every installed package.
    if scheme in _SCHEMES:
        return uri
    plugins = (entry_points(group=group) for group in _PLUGINS)
    known = sorted({*_SCHEMES, *(plugin.name for group in plugins for plugin in group)})
    if scheme in known:
        return uri
    if (package := _PACKAGES.get(scheme)) is not None:
        raise ValueError(f"needs a plug-in of MLflow that is not installed: pip install {package}")
    near = get_close_matches(scheme, known, 1)
    guess = f" (did you mean {near[0]}://?)" if near else ""
    raise ValueError(f"unknown scheme {match[0]}://{guess}; supported schemes: {', '.join(known)}")


def is_http(uri: str) -> bool:
    """Return whether `uri` is that of a tracking server."""
    return uri.lower().startswith(_HTTP)


def is_database(uri: str) -> bool:
    """Return whether `uri` is that of a database that MLflow opens itself."""
    return _DATABASE.match(uri) is not None


def is_readable_database(uri: str) -> bool:
    """Return whether `uri` is that of a database whose tables we can read ourselves."""
    match = _DATABASE.match(uri)
    return match is not None and match[1].lower() != "mssql"


def folder_of(uri: str) -> Path | None:
    """Return the folder that `uri` names, None for any other kind of address."""
    if uri.startswith("file:"):
        return Path(unquote(urlsplit(uri).path))
    if _NO_PATH.match(uri):
        return None
    is_path = os.sep in uri or uri.startswith(".") or Path(uri).exists()
    return Path(uri) if is_path else None


def normalise_uri(uri: str) -> str:
    """Return the one spelling of `uri`: lower-case host, no default port, slash or credentials."""
    shown = redact_url(uri.strip())
    if not is_http(shown):
        return shown
    parts = urlsplit(shown)
    host = (parts.hostname or "").lower()
    if ":" in host:
        host = f"[{host}]"
    scheme = parts.scheme.lower()
    if parts.port is not None and parts.port != _DEFAULT_PORTS[scheme]:
        host = f"{host}:{parts.port}"
    return f"{scheme}://{host}{parts.path.rstrip('/')}"


_DATABRICKS: Final = re.compile(r"(databricks|databricks-uc)(?:://[^/]*/?)?")
_DATABRICKS_HOST: Final = re.compile(
    r"(^|\.)(cloud\.databricks\.(com|us|mil)|azuredatabricks\.net|databricks\.azure\.(cn|us)"
    r"|gcp\.databricks\.com)$"
)
_UNITY_CATALOG: Final = "databricks-uc"
_UC_PARTS: Final = 3


def has_databricks_scheme(uri: str) -> bool:
    """Return whether `uri` is one of MLflow's names for a Databricks workspace."""
    return _DATABRICKS.fullmatch(uri) is not None


def is_unity_catalog(uri: str) -> bool:
    """Return whether `uri` is that of the model registry in Databricks' Unity Catalog."""
    match = _DATABRICKS.fullmatch(uri)
    return match is not None and match[1] == _UNITY_CATALOG


def is_databricks(uri: str) -> bool:
    """Return whether `uri` leads to a Databricks workspace, by its scheme or its host."""
    if has_databricks_scheme(uri):
        return True
    return is_http(uri) and bool(_DATABRICKS_HOST.search(urlsplit(uri).hostname or ""))


def registry_of(tracking_uri: str, registry_uri: str | None) -> str:
    """Return the URI of the model registry; Databricks' default is Unity Catalog, as in MLflow 3.

    Source: `_get_default_registry_uri_for_tracking_uri` of MLflow 3.17.
    """
    if registry_uri is not None:
        return registry_uri
    return _UNITY_CATALOG if has_databricks_scheme(tracking_uri) else tracking_uri


@dataclass(frozen=True, slots=True)
class UiLinks:
    """Builds links under `base`, the UI's address without a slash at its end; None gives none.

    Source: the addresses that MLflow 3.17 prints (`/#/experiments/…?workspace=…`, on Databricks
    `/ml/experiments/…`, models of Unity Catalog `/explore/data/models/…`).
    """

    base: str | None
    query: str = ""
    databricks: bool = False

    def experiment(self, experiment_id: str) -> str | None:
        """Return the link to an experiment's page."""
        return self._page(f"experiments/{_quote(experiment_id)}")

    def run(self, experiment_id: str, run_id: str) -> str | None:
        """Return the link to a run's page."""
        return self._page(f"experiments/{_quote(experiment_id)}/runs/{_quote(run_id)}")

    def logged_model(self, experiment_id: str, model_id: str) -> str | None:
        """Return the link to the page of a logged model of MLflow 3."""
        return self._page(f"experiments/{_quote(experiment_id)}/models/{_quote(model_id)}")

    def registered_model(self, name: str) -> str | None:
        """Return the link to a registered model's page."""
        if self.databricks and name.count(".") == _UC_PARTS - 1:
            return self._explore(name)
        return self._page(f"models/{_quote(name)}")

    def prompt(self, name: str) -> str | None:
        """Return the link to a prompt's page."""
        return self._page(f"prompts/{_quote(name)}")

    def version(self, name: str, version: str) -> str | None:
        """Return the link to the page of one version of a registered model."""
        if self.databricks and name.count(".") == _UC_PARTS - 1:
            return self._explore(name, f"/version/{_quote(version)}")
        return self._page(f"models/{_quote(name)}/versions/{_quote(version)}")

    def _page(self, path: str) -> str | None:
        if self.base is None:
            return None
        root = "/ml/" if self.databricks else "/#/"
        return f"{self.base}{root}{path}{self.query}"

    def _explore(self, name: str, rest: str = "") -> str | None:
        if self.base is None:
            return None
        path = "/".join(_quote(part) for part in name.split("."))
        return f"{self.base}/explore/data/models/{path}{rest}{self.query}"


def _quote(text: str) -> str:
    is_plain = text.isalnum() and text.isascii()
    return text if is_plain else quote(text, safe="", errors="replace")


def ui_links(
    tracking_uri: str, *, ui_url: str | None = None, workspace: str | None = None
) -> UiLinks:
    """Return the link builder of a tracking server.

    `ui_url` overrides the address; without it only an http(s) `tracking_uri` has links.
    Credentials in an address are left out; a query (`?o=<workspace id>`) is in every link.
    """
    parts = urlsplit(ui_url or tracking_uri)
    databricks = is_databricks(tracking_uri) or bool(_DATABRICKS_HOST.search(parts.hostname or ""))
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return UiLinks(None, databricks=databricks)
    base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    query = [parts.query] if parts.query else []
    if workspace:
        query.append(f"workspace={_quote(workspace)}")
    return UiLinks(base, f"?{'&'.join(query)}" if query else "", databricks)
