"""What `mlcat-ingest check` says about an MLflow server, whatever reads it."""

from collections.abc import Callable, Iterator

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.reader import Reader, RunFilter
from mlcat_ingest.sources.mlflow.values.records import Experiment
from mlcat_ingest.sources.mlflow.values.releases import MlflowFeature, ReadBy, untested
from mlcat_ingest.sources.mlflow.values.uris import is_http


def findings(
    reader: Reader, config: MlflowConfig, *, version: str | None, how: str, read_by: ReadBy
) -> Iterator[Finding]:
    """Yield the findings about a server that answers: version, permissions, what it holds.

    Each listing is tried by itself, so that one which is denied hides no other.

    Cost: the requests for workspaces, experiments and registered models, and three for the first
    of versions, runs and logged models, in each workspace.
    """
    yield _version(version, read_by)
    try:
        workspaces = reader.workspaces()
    except MlcatError as error:
        yield _failed("MLflow permission: read workspaces", error)
        return
    wanted = [name for name in workspaces if config.workspaces.allows(name)]
    if len(workspaces) > 1 or workspaces[0] != DEFAULT_WORKSPACE:
        text = f"{len(wanted)} of {len(workspaces)} are read: {', '.join(wanted[:10])}"
        yield Finding("MLflow workspaces", "ok" if wanted else "warning", text)
    let_in = False
    for name in wanted:
        where = f" in workspace {name}" if len(workspaces) > 1 else ""
        for found in _Permissions(reader.in_workspace(name), config, where, version).tried():
            let_in |= found.outcome != "failed"
            yield found
    if let_in:
        yield Finding("MLflow credentials", "ok", f"accepted: {how}")
        yield _server_id(reader)
    yield _links(config)


def _server_id(reader: Reader) -> Finding:
    try:
        return Finding("MLflow server id", "ok", reader.server_id())
    except MlcatError as error:
        return _failed("MLflow server id", error)


def _version(version: str | None, read_by: ReadBy) -> Finding:
    what = "MLflow version"
    if version is None:
        return Finding(what, "warning", "the server does not tell its version")
    problem = untested(version, read_by)
    return Finding(what, "warning" if problem else "ok", problem or version)


class _Permissions:
    """Each listing of one workspace, tried by itself."""

    def __init__(
        self, reader: Reader, config: MlflowConfig, where: str, version: str | None
    ) -> None:
        self._reader = reader
        self._config = config
        self._where = where
        self._logged = MlflowFeature.LOGGED_MODELS.is_in(version or "")
        self._wanted: list[Experiment] = []
        self._models = 0

    def tried(self) -> Iterator[Finding]:
        """Yield a finding for each permission that a run needs."""
        yield self._try("read experiments", self._experiments)
        if self._wanted:
            yield self._try("read runs", self._runs)
        yield self._try("read registered models", self._registered_models)
        if self._models:
            yield self._try("read model versions", self._versions)
        if self._wanted and self._logged:
            yield self._try("read logged models", self._logged_models)

    def _try(self, permission: str, look: Callable[[str], Finding]) -> Finding:
        what = f"MLflow permission: {permission}"
        try:
            return look(what)
        except MlcatError as error:
            return _failed(what, error)

    def _experiments(self, what: str) -> Finding:
        experiments = [one for page in self._reader.experiments() for one in page]
        self._wanted = [one for one in experiments if self._config.experiments.allows(one.name)]
        text = f"{len(self._wanted)} of {len(experiments)} are read{self._where}"
        if self._wanted:
            return Finding(what, "ok", text)
        if experiments:
            hint = "no experiment passes `experiments.allow` and `experiments.deny`"
        else:
            hint = "MLflow leaves out what the user may not read; may it read any?"
        return Finding(what, "warning", text, hint)

    def _runs(self, what: str) -> Finding:
        ids = [self._wanted[-1].experiment_id]
        found = any(self._reader.runs(ids, only=RunFilter(limit=1)))
        return Finding(what, "ok", f"{'granted' if found else 'none yet'}{self._where}")

    def _registered_models(self, what: str) -> Finding:
        self._models = sum(len(page) for page in self._reader.registered_models())
        return Finding(what, "ok", f"{self._models}{self._where}")

    def _versions(self, what: str) -> Finding:
        next(iter(self._reader.model_versions()), None)
        return Finding(what, "ok", f"granted{self._where}")

    def _logged_models(self, what: str) -> Finding:
        next(iter(self._reader.logged_models([self._wanted[-1].experiment_id])), None)
        return Finding(what, "ok", f"granted{self._where}")


def _links(config: MlflowConfig) -> Finding:
    if config.ui_url is not None:
        return Finding("MLflow links", "ok", config.ui_url)
    if is_http(config.tracking_uri):
        return Finding("MLflow links", "ok", config.public_uri)
    return Finding(
        "MLflow links", "warning", "entities get no link to MLflow", "set `ui_url` to have them"
    )


def _failed(what: str, error: MlcatError) -> Finding:
    return Finding(what, "failed", error.message, error.hint)
