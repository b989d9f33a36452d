"""Links to the pages of the MLflow UI, open source and Databricks."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

_DATABRICKS_HOST = re.compile(
    r"(^|\.)(cloud\.databricks\.com|azuredatabricks\.net|gcp\.databricks\.com)$"
)
_UC_PARTS: Final = 3


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
        return self._page(f"experiments/{_quoted(experiment_id)}")

    def run(self, experiment_id: str, run_id: str) -> str | None:
        """Return the link to a run's page."""
        if self.base is None:
            return None
        # The ids of MLflow itself need no quoting, and this is called once a run.
        if not (experiment_id.isalnum() and experiment_id.isascii()):
            experiment_id = _quoted(experiment_id)
        if not (run_id.isalnum() and run_id.isascii()):
            run_id = _quoted(run_id)
        return self._page(f"experiments/{experiment_id}/runs/{run_id}")

    def registered_model(self, name: str) -> str | None:
        """Return the link to a registered model's page."""
        if self.databricks and name.count(".") == _UC_PARTS - 1:
            return self._explore(name)
        return self._page(f"models/{_quoted(name)}")

    def version(self, name: str, version: str) -> str | None:
        """Return the link to the page of one version of a registered model."""
        if self.databricks and name.count(".") == _UC_PARTS - 1:
            return self._explore(name, f"/version/{_quoted(version)}")
        return self._page(f"models/{_quoted(name)}/versions/{_quoted(version)}")

    def _page(self, path: str) -> str | None:
        if self.base is None:
            return None
        root = "/ml/" if self.databricks else "/#/"
        return f"{self.base}{root}{path}{self.query}"

    def _explore(self, name: str, rest: str = "") -> str | None:
        if self.base is None:
            return None
        path = "/".join(_quoted(part) for part in name.split("."))
        return f"{self.base}/explore/data/models/{path}{rest}{self.query}"


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")


def ui_links(
    tracking_uri: str, *, ui_url: str | None = None, workspace: str | None = None
) -> UiLinks:
    """Return the link builder of a tracking server.

    `ui_url` overrides the address; without it only an http(s) `tracking_uri` has links.
    Credentials in an address are left out; a query (`?o=<workspace id>`) goes to every link.
    """
    parts = urlsplit(ui_url or tracking_uri)
    databricks = tracking_uri.partition(":")[0] in {"databricks", "databricks-uc"} or (
        _DATABRICKS_HOST.search(parts.hostname or "") is not None
    )
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return UiLinks(None, databricks=databricks)
    base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    query = [parts.query] if parts.query else []
    if workspace:
        query.append(f"workspace={_quoted(workspace)}")
    return UiLinks(base, f"?{'&'.join(query)}" if query else "", databricks)
