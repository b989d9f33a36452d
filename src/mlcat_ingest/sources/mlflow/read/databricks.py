"""Reads a Databricks workspace over REST: its experiments and runs, its registry or Unity Catalog.

Source: the requests that MLflow 3.17 sends to Databricks (`DatabricksTracingRestStore`,
`UcModelRegistryStore`), the limits that databricks-sdk 0.156 documents, and refusals in the issues
of mlflow/mlflow: #13590 (100 experiments a search), #7967 (versions by the name of their model).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, ClassVar, Final, Self
from urllib.parse import quote

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.paging import ListingPage
from mlcat_ingest.core.resources import map_ahead
from mlcat_ingest.errors import ProtocolMismatchError, SourceUnavailableError
from mlcat_ingest.net.http import Reply, clock
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.checks import findings, links_finding
from mlcat_ingest.sources.mlflow.read.listing import name_filter
from mlcat_ingest.sources.mlflow.read.reader import (
    ALL_MODELS,
    ALL_RUNS,
    FileLocation,
    ModelFilter,
    RunFilter,
    identity,
)
from mlcat_ingest.sources.mlflow.read.rest import (
    API,
    MlflowServer,
    RestReader,
    object_of,
    page_of,
    raise_for_status,
    reports_missing,
)
from mlcat_ingest.sources.mlflow.values.records import LoggedModel, Run
from mlcat_ingest.sources.mlflow.values.uris import is_unity_catalog, registry_of

log = logging.getLogger(__name__)

_FILTERS: Final = "filters of logged-models"
_DETAILS: Final = {"registered-models": "registered_model", "model-versions": "model_version"}
"""The key of one item in the reply to a request for it by name."""


class DatabricksReader(RestReader):
    """A `Reader` of one Databricks workspace and its model registry.

    Cost: one listing of versions for each registered model; in Unity Catalog also a request for
    each model and each version, since its listings leave out tags and aliases.
    """

    experiments_a_listing: ClassVar[int] = 100
    logged_models_page: ClassVar[int] = 50
    experiments_order: ClassVar[str] = "name ASC"

    def __init__(
        self, config: MlflowConfig, server: MlflowServer | None = None, workspace: str | None = None
    ) -> None:
        """Prepare the connections, or share those of `server`; nothing is contacted yet."""
        super().__init__(config, server, workspace)
        self._outputs: dict[str, list[str]] = {}
        registry = registry_of(config.tracking_uri, config.registry_uri)
        self._unity_catalog = is_unity_catalog(registry)
        if self._unity_catalog:
            self.registry_api = f"{API}/unity-catalog"

    def server_id(self) -> str:
        """Return the identity of the workspace: there is no experiment 0 to tell it by."""
        account = self.connection.sign_in.account
        if account is None:
            return identity(self._config, lambda: None)
        # One host may serve several workspaces.
        parts = (account.url, account.workspace_id)
        return identity(self._config.of_one("/".join(filter(None, parts))), lambda: None)

    def workspaces(self) -> Sequence[Self]:
        """Return itself: a Databricks workspace is none of MLflow's."""
        return (self,)

    def runs(
        self, experiment_ids: Sequence[str], *, only: RunFilter = ALL_RUNS
    ) -> Iterator[list[Run]]:
        """Yield the runs of some experiments in slices of a page, in the order of their start."""
        for page in super().runs(experiment_ids, only=only):
            self._outputs = {
                run.run_id: [output.model_id for output in run.model_outputs] for run in page
            }
            yield page

    def logged_models(
        self, experiment_ids: Sequence[str], *, only: ModelFilter = ALL_MODELS
    ) -> Iterator[list[LoggedModel]]:
        """Yield the logged models of some experiments in pages.

        Databricks is known to refuse filters that MLflow's own server takes. Then, and from then
        on, models are asked for by their ids where these are known, those of the runs listed last
        among them; else all are listed and filtered here.
        """
        if only != ALL_MODELS and _FILTERS not in self.lacking:
            try:
                yield from super().logged_models(experiment_ids, only=only)
            except ProtocolMismatchError:
                self.lacking.add(_FILTERS)
            else:
                return
        ids = self._model_ids(only)
        if ids is not None:
            models, wanted = self._models_by_id(ids), set(experiment_ids)
            yield [m for m in models if only.accepts(m) and m.experiment_id in wanted]
            return
        for page in super().logged_models(experiment_ids):
            yield [model for model in page if only.accepts(model)]

    def _model_ids(self, only: ModelFilter) -> Sequence[str] | None:
        """Return the ids of all models that `only` accepts, None where they are not known."""
        if only.model_ids is not None:
            return only.model_ids
        if only.run_ids is None or not self._outputs.keys() >= set(only.run_ids):
            return None
        return [model_id for run_id in only.run_ids for model_id in self._outputs[run_id]]

    def _models_by_id(self, ids: Sequence[str]) -> list[LoggedModel]:
        def ask(model_id: str) -> Reply:
            path = f"{API}/logged-models/{quote(model_id, safe='')}"
            return self._request(path)

        replies = map_ahead(ask, ids, self._config.connections)
        items = [
            object_of(raise_for_status(reply, "logged models")).get("model") or {}
            for reply in replies
            if not reports_missing(reply)
        ]
        return self._usable("logged-models", items)

    def text_of(self, place: FileLocation, path: str) -> str | None:
        """Return the content of a file of a run or logged model, by its signed address."""
        if not self._has_file(place, path):
            return None
        if place.kind == "run":
            address, body = f"{API}/artifacts/credentials-for-read", {"run_id": place.id}
            given = self._ask(address, {**body, "path": [path]}).get("credential_infos")
        else:
            address = f"{API}/logged-models/{place.id}/artifacts/credentials-for-download"
            files = self._ask(address, {"paths": [path]}).get("credentials")
            given = [file.get("credential_info") for file in files or ()]
        signed = given[0] if given else {}
        if not signed.get("signed_uri"):
            return None
        sent = {header["name"]: header["value"] for header in signed.get("headers") or ()}
        with closing(self.connection.without_credentials(signed["signed_uri"])) as store:
            reply = raise_for_status(store.request("GET", "", headers=sent), f"the file {path}")
        return reply.content.decode("utf-8", "replace")

    def _ask(self, address: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return object_of(raise_for_status(self._request(address, body=body), "files"))

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing."""
        try:
            next(iter(self.experiments()), None)
        except SourceUnavailableError as error:
            yield Finding("MLflow server", "failed", error.message, error.hint)
            return
        how = self.connection.sign_in.how
        # A URI like databricks has no address.
        account = self.connection.sign_in.account
        shown = self._config if account is None else self._config.of_one(account.address)
        yield from findings(self, shown, version=None, how=how, read_by="Databricks")
        yield links_finding(shown)
        yield clock("MLflow", self.connection.tracking.clock_skew_s)

    def assets(self, kind: str) -> None:
        """Return None: Databricks has no such listings."""
        del kind

    def narrow_registry(self, names: Sequence[str]) -> None:
        """Do nothing: Databricks lists versions by the name of each registered model anyway."""

    def _items(self, listing: str, query: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
        bare = self._unity_catalog and listing in _DETAILS
        for part in self._queries(listing, query):
            for items in super()._items(listing, part):
                yield list(self._with_details(listing, items)) if bare else items

    def _queries(self, listing: str, query: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield `query`, or one for each registered model where versions are listed by its name."""
        if listing != "model-versions":
            yield query
            return
        names = [model.name for page in self.registered_models() for model in page]
        for name in names:
            condition = name_filter(name)
            if condition is None:
                log.warning(
                    "cannot list the versions of registered model %s: its name contains ' and \"",
                    name,
                )
                continue
            yield {"filter": condition, "max_results": query["max_results"]}

    def _page(self, listing: str, query: Mapping[str, Any], token: str | None) -> ListingPage[Any]:
        if listing != "experiments":
            return super()._page(listing, query, token)
        reply = self._post(listing, query, token)
        return page_of(raise_for_status(reply, listing), listing)

    def _with_details(self, listing: str, items: Sequence[Any]) -> Iterator[Any]:
        """Yield each item with its tags and aliases; one that was deleted meanwhile is left out."""

        def ask(item: Mapping[str, Any]) -> Reply:
            params = [(key, str(item[key])) for key in ("name", "version") if key in item]
            path = f"{self.registry_api}/{listing}/get"
            return self._request(path, self.connection.registry, params=params)

        for reply in map_ahead(ask, items, self._config.connections):
            if not reports_missing(reply):
                yield object_of(raise_for_status(reply, listing)).get(_DETAILS[listing], {})
