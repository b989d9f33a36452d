"""The configuration of the MLflow source, as the recipe spells it. Cheap to import."""

import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import unquote, urlsplit, urlunsplit

from pydantic import (
    AfterValidator,
    AliasChoices,
    Field,
    model_validator,
)

from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.metadata.naming import DATAHUB_TEMPLATES, Templates
from mlcat_ingest.recipe.connection import ConnectionConfig, Timeout
from mlcat_ingest.recipe.fields import (
    Duration,
    NotContent,
    PublicStr,
    RecipeModel,
    ServiceUrl,
    seconds_in,
)
from mlcat_ingest.recipe.values import Fabric, PatternFilter, RecipeUrl
from mlcat_ingest.sources.datasets import DatasetsConfig, KnownDatasets
from mlcat_ingest.sources.mlflow.values.uris import is_http, is_readable_database, with_known_scheme
from mlcat_ingest.sources.options import FeaturesConfig, without_instance
from mlcat_ingest.sources.owners import OwnersConfig

DEFAULT_TRACKING_URI = "http://127.0.0.1:5000"

TrackingUri = Annotated[RecipeUrl, AfterValidator(with_known_scheme)]
RunStatus = Literal["RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"]
ReaderName = Literal["auto", "rest", "database", "client"]
RunSelect = Literal["all", "with_model", "registered"]


def _moment(text: str) -> str:
    if seconds_in(text) is None:
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(
                "is neither an ISO date or time (2026-01-31, 2026-01-31T08:00Z) "
                "nor an age (30m, 12h, 7d, 4w)"
            ) from None
    return text


class RunsConfig(RecipeModel):
    """Runs that become models."""

    select: RunSelect = "all"
    """`all` runs, those `with_model` logged or registered, or only those behind a `registered`
    model version."""

    children: Literal["include", "collapse", "skip"] = "include"
    """Nested runs: `include` each as a model, `collapse` them into a count on their top-most parent
    (which reads the listing of runs twice), or `skip` them. Those behind a registered version are
    always models."""

    statuses: tuple[RunStatus, ...] = ()
    """Only runs in one of these states; empty for all."""

    since: Annotated[PublicStr, AfterValidator(_moment)] | None = None
    """Only runs that started at this ISO date or time (UTC where it names no zone) or later, or
    not longer ago than an age such as `12h`, `7d` or `4w`."""

    stale_running_after: Duration | None = None
    """A run that has not ended so long after its start, such as `7d`, counts as abandoned: its
    model says `mlflow.abandoned`, and it is read again once it ends, or by a full pass. Nothing is
    written to MLflow. Default: runs may take for ever."""

    def since_ms(self, now_ms: int | None = None) -> int | None:
        """Return `since` in epoch milliseconds, an age counted back from `now_ms`."""
        if self.since is None:
            return None
        ago_s = seconds_in(self.since)
        if ago_s is not None:
            now = int(time.time() * 1000) if now_ms is None else now_ms
            return now - ago_s * 1000
        moment = datetime.fromisoformat(self.since)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)


class IncrementalConfig(RecipeModel):
    """Reading only what changed since the last run, where state is kept.

    Every `state.full_every` all is read. In between, a run is read again that started or ended
    since, that had not ended when it was last seen, that came into the trash or out of it, whose
    registered versions, aliases or logged models changed, or that the catalog refused.
    """

    enabled: bool = True
    """Read only what changed. Listings with a `limit`, or that collapse children, are
    read whole every time all the same."""

    overlap: Duration = Duration("1h")
    """How far before the start of the last run to look for runs that started or ended since. It
    has to cover how far the clocks of those who log runs differ from the server's."""


class NamingConfig(RecipeModel):
    """Templates of the names in URNs. Changing one changes every identity it makes."""

    model: PublicStr = "{run_id}"
    """Name of a run's model; may use {run_id}."""

    group: PublicStr = "{experiment}"
    """Name of an experiment's group; may use {experiment}."""

    registered_group: PublicStr = "registered:{name}"
    """Name of a registered model's group; may use {name}."""

    version: PublicStr = "{name}_{version}"
    """Name of the model of a version; may use {name} and {version}."""

    @model_validator(mode="after")
    def _names_stay_apart(self) -> Self:
        Templates(**self.model_dump())
        return self


class MlflowConfig(ConnectionConfig):
    """An MLflow tracking server, or a store that MlflowClient opens.

    MLflow's own variables fill in what a connection leaves out: MLFLOW_TRACKING_USERNAME and
    _PASSWORD (else ~/.mlflow/credentials), MLFLOW_TRACKING_TOKEN, MLFLOW_TRACKING_INSECURE_TLS,
    MLFLOW_TRACKING_SERVER_CERT_PATH and MLFLOW_TRACKING_CLIENT_CERT_PATH.
    """

    # What DataHub's own mlflow source calls otherwise, or does and this one does not.
    key_hints: ClassVar[Mapping[str, str]] = {
        "model_name_separator": "is part of `naming.version` here, for example {name}_{version}",
        "materialize_dataset_inputs": "is not offered: datasets are linked, not made; delete it",
        "source_mapping_to_platform": "is `datasets.source_types` here",
        "platform_instance_map": "is `datasets.platforms` here: {s3: {instance: …}}",
    }

    tracking_uri: TrackingUri = Field(
        default_factory=lambda: os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_TRACKING_URI
    )
    """Address of the tracking server (http or https, read over its REST API), or of its database
    (SQLite, PostgreSQL or MySQL, read by SQL), or any other tracking URI (a folder, databricks),
    which needs the extra `mlflow`. Default: the variable MLFLOW_TRACKING_URI, else
    http://127.0.0.1:5000."""

    registry_uri: TrackingUri | None = Field(
        default_factory=lambda: os.environ.get("MLFLOW_REGISTRY_URI") or None
    )
    """Address of the model registry where it is another one than the tracking server. Default:
    the variable MLFLOW_REGISTRY_URI, else the tracking server."""

    reader: ReaderName = "auto"
    """How to read: `rest`, or `database` for MLflow's own tables, or `client` for whatever the
    installed MlflowClient opens; `auto` takes what fits the addresses, and the client for a
    database whose schema is not known."""

    auth: Annotated[PublicStr | None, NotContent()] = None
    """Name of an MLflow request-auth plug-in, which needs the extra `mlflow`. Default:
    MLFLOW_TRACKING_AUTH."""

    timeout_s: Timeout = 120.0
    """Seconds to wait for the server to send something before the attempt counts as failed; for a
    database, the most that one statement may take."""

    page_size: Annotated[int, NotContent()] = Field(default=500, ge=1, le=50_000)
    """Most runs asked for in one request: the first page is smaller, and so are those of runs with
    thousands of parameters and metrics."""

    connections: Annotated[int, NotContent()] = Field(default=3, ge=1, le=32)
    """Requests for pages of runs that are under way at once."""

    experiments: PatternFilter = PatternFilter()
    """Experiments to read, by name."""

    workspaces: PatternFilter = PatternFilter()
    """Workspaces to read, by name, where the server has them."""

    runs: RunsConfig = RunsConfig()
    """Runs that become models."""

    incremental: Annotated[IncrementalConfig, NotContent()] = IncrementalConfig()
    """Reading only what changed since the last run."""

    limit: int | None = Field(default=None, ge=1)
    """At most so many runs, the newest; for trying things out."""

    system_metrics: bool = False
    """Take metrics whose name begins with `system/`, too."""

    env: Fabric = "PROD"
    """Environment that goes into every URN."""

    instance: PublicStr | None = Field(
        default=None, validation_alias=AliasChoices("instance", "platform_instance")
    )
    """Platform instance: a prefix of every name, for several servers in one catalog."""

    compat: Literal["datahub"] | None = None
    """`datahub` writes to the entities that DataHub's own mlflow source makes: a registered model
    is the group `<name>`, and an experiment the group `experiment:<name>`. A template given in
    `naming` wins over that. It excludes `instance`, which that source does not know."""

    naming: NamingConfig = NamingConfig()
    """Templates of the names in URNs."""

    ui_url: ServiceUrl | None = Field(
        default=None, validation_alias=AliasChoices("ui_url", "base_external_url")
    )
    """Address of the MLflow UI for links, where users reach it by another one than the tracking
    URI."""

    server_id: PublicStr | None = None
    """Identity of the server among the catalog's sources; found out where it is not given."""

    owners: OwnersConfig = OwnersConfig()
    """How users become owners: of a run the tag `mlflow.user`, else the deprecated `user_id`."""

    datasets: KnownDatasets = DatasetsConfig()
    """How the catalog names the datasets that runs used."""

    features: FeaturesConfig = FeaturesConfig()
    """How models are linked to the features that they were trained on."""

    alias_tags: bool = False
    """Make aliases of model versions global tags, too: `mlflow_alias_<alias>`."""

    @model_validator(mode="before")
    @classmethod
    def _preset_names(cls, data: Any) -> Any:
        naming = data.get("naming") if isinstance(data, dict) else None
        if isinstance(data, dict) and data.get("compat") == "datahub" and isinstance(naming, dict):
            return {**data, "naming": {**asdict(DATAHUB_TEMPLATES), **naming}}
        if isinstance(data, dict) and data.get("compat") == "datahub" and naming is None:
            return {**data, "naming": asdict(DATAHUB_TEMPLATES)}
        return data

    @model_validator(mode="before")
    @classmethod
    def _split_user_info(cls, data: Any) -> Any:
        # A password in an address would be printed with it; as a field it is masked everywhere.
        uri = data.get("tracking_uri") if isinstance(data, dict) else None
        if isinstance(data, dict) and "tracking_uri" not in data:
            uri = os.environ.get("MLFLOW_TRACKING_URI")
        if not isinstance(uri, str) or not is_http(uri.strip()):
            return data
        parts = urlsplit(uri.strip())
        user_info, at, host = parts.netloc.rpartition("@")
        if not at:
            return data
        user, _, password = user_info.partition(":")
        return {
            **({"username": unquote(user)} if user else {}),
            **({"password": unquote(password)} if password else {}),
            **data,
            "tracking_uri": urlunsplit(parts._replace(netloc=host)),
        }

    @model_validator(mode="after")
    def _compat_has_no_instance(self) -> Self:
        return without_instance(self)

    @model_validator(mode="after")
    def _reader_fits(self) -> Self:
        if self.reader == "rest" and not self.over_http:
            raise ValueError("`reader: rest` needs the http or https address of a server")
        if self.reader == "database" and not is_readable_database(self.tracking_uri):
            raise ValueError(
                "`reader: database` needs the address of an SQLite, PostgreSQL or MySQL database"
            )
        return self

    def of_one(self, uri: str) -> Self:
        """Return the same configuration for a server or database that is its own registry."""
        return self.model_copy(update={"tracking_uri": uri, "registry_uri": None})

    @property
    def public_uri(self) -> str:
        """The tracking URI without user name, password and query, for messages."""
        return redact_url(self.tracking_uri)

    @property
    def over_http(self) -> bool:
        """True if everything can be read over REST."""
        return is_http(self.tracking_uri) and is_http(self.registry_uri or self.tracking_uri)
