"""What `mlcat-ingest check` says about an MLflow server, whatever reads it."""

from collections.abc import Iterator

from mlcat_ingest.errors import MlcatError
from mlcat_ingest.findings import Finding
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.reader import DEFAULT_WORKSPACE, Reader, RunFilter
from mlcat_ingest.sources.mlflow.uris import is_http

_TESTED = ("2.", "3.")


def findings(
    reader: Reader, config: MlflowConfig, *, version: str | None, how: str
) -> Iterator[Finding]:
    """Yield the findings about a server that answers: version, credentials, what it holds.

    Cost: the requests for workspaces, experiments, registered models and one run.
    """
    yield _version(version)
    try:
        workspaces = reader.workspaces()
        wanted = [name for name in workspaces if config.workspaces.allows(name)]
        if len(workspaces) > 1 or workspaces[0] != DEFAULT_WORKSPACE:
            text = f"{len(wanted)} of {len(workspaces)} are read: {', '.join(wanted[:10])}"
            yield Finding("MLflow workspaces", "ok" if wanted else "warning", text)
        for name in wanted:
            yield from _workspace(reader.in_workspace(name), config, several=len(workspaces) > 1)
        yield Finding("MLflow credentials", "ok", f"accepted: {how}")
        yield Finding("MLflow server id", "ok", reader.server_id())
    except MlcatError as error:
        yield Finding("MLflow listings", "failed", error.message, error.hint)
        return
    yield _links(config)


def _version(version: str | None) -> Finding:
    if version is None:
        return Finding("MLflow version", "warning", "the server does not tell its version")
    if version.startswith(_TESTED):
        return Finding("MLflow version", "ok", version)
    return Finding("MLflow version", "warning", f"{version} is not among those tested: 2.x, 3.x")


def _workspace(reader: Reader, config: MlflowConfig, *, several: bool) -> Iterator[Finding]:
    where = f" in workspace {reader.workspace}" if several else ""
    experiments = [one for page in reader.experiments() for one in page]
    wanted = [one for one in experiments if config.experiments.allows(one.name)]
    text = f"{len(wanted)} of {len(experiments)} are read{where}"
    hint = None if wanted else "no experiment passes `experiments.allow` and `experiments.deny`"
    yield Finding("MLflow experiments", "ok" if wanted else "warning", text, hint)
    models = sum(len(page) for page in reader.registered_models())
    yield Finding("MLflow registered models", "ok", f"{models}{where}")
    if wanted:
        found = any(reader.runs([wanted[-1].experiment_id], only=RunFilter(limit=1)))
        yield Finding("MLflow runs", "ok", f"can be read{where}" if found else f"none yet{where}")


def _links(config: MlflowConfig) -> Finding:
    if config.ui_url is not None:
        return Finding("MLflow links", "ok", config.ui_url)
    if is_http(config.tracking_uri):
        return Finding("MLflow links", "ok", config.public_uri)
    return Finding(
        "MLflow links", "warning", "entities get no link to MLflow", "set `ui_url` to have them"
    )
