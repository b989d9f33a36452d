"""Releases of MLflow, and the checks of `mlcat-ingest check`: version, permissions, contents.

Readers do not decide by a version whether a feature is there: a server or store without it answers
so, and a database shows it by its columns.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from http import HTTPStatus
from itertools import chain
from typing import Final, Literal

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.reader import Reader, RunFilter
from mlcat_ingest.sources.mlflow.values.records import Experiment
from mlcat_ingest.sources.mlflow.values.uris import is_http

ReadBy = Literal["server", "MlflowClient", "database", "Databricks"]

TESTED: Final[Mapping[ReadBy, Sequence[str]]] = {
    "server": ("2.9", "2.22", "3.0", "3.10", "3.17", "3.18"),
    "MlflowClient": ("3.10", "3.17"),
}
"""The minor versions that are tested; for a database, its reader looks for `REVISIONS`."""

REVISIONS: Final[Mapping[str, str]] = {
    "0584bdc529eb": "2.18 to 2.22",
    "6953534de441": "3.0.0 and 3.1.0",
    "bda7b8c39065": "3.0.1 and 3.1.1 to 3.1.4",
    "770bee3ae1dd": "3.2",
    "1a0cddfcaa16": "3.3",
    "71994744cf8e": "3.4",
    "bf29a5ff90ea": "3.5 to 3.7",
    "1bd49d398cd23": "3.8",
    "d3e4f5a6b7c8": "3.9",
    "1b5f0d9ad7c1": "3.10",
    "c3d6457b6d8a": "3.11",
    "7d34483879f0": "3.12",
    "da6fb0208061": "3.13",
    "b7e4c1a90f23": "3.14",
    "6f8d9c3b2a1e": "3.15",
    "b7e2c1a4d9f3": "3.16",
    "dc11669786a5": "3.17",
    "f4a9b2c7d1e6": "3.18",
}
"""The known revisions that `alembic_version` holds, and the releases that make each.

Source: the newest migration (`mlflow/store/db_migrations/versions`) of every release named here;
`tests/compat/mlflow_versions` compares some of them.
"""

WORKSPACES: Final = "MLflow workspaces"
"""The finding about the workspaces that are read."""

OMITS: Final = "MLflow omits objects without permission: grant the user READ, or check the address"
"""The hint of an empty listing."""

_PERMISSION: Final = "MLflow permission: "


class MlflowFeature(Enum):
    """A feature that older releases lack, with the first minor version that has it."""

    LOGGED_MODELS = (3, 0)
    OUTPUTS_IN_LISTINGS = (3, 6)
    """The models that a run logged, where a server lists runs; a database has them since 3.0."""
    WORKSPACES = (3, 10)

    def is_in(self, version: str) -> bool:
        """Return whether the release that `version` begins with has it."""
        return numbers_of(version) >= self.value


def numbers_of(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version, none where it does not begin with them."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return () if match is None else (int(match[1]), int(match[2]))


def support_warning(version: str, read_by: ReadBy) -> str | None:
    """Return a sentence about a version that is not tested, None for one that is."""
    tested = TESTED.get(read_by)
    if tested is None or ".".join(map(str, numbers_of(version))) in tested:
        return None
    return f"{version} is not a tested version; tested: {', '.join(tested)}"


def findings(
    reader: Reader, config: MlflowConfig, *, version: str | None, how: str, read_by: ReadBy
) -> Iterator[Finding]:
    """Yield the findings about a server that answers: its version, permissions and contents.

    Each listing is tried by itself, so that a denied one hides no other.

    Cost: the requests for workspaces, experiments and registered models, and three for the first
    of versions, runs and logged models, in each workspace.
    """
    yield _version(version, read_by)
    try:
        readers = reader.workspaces()
    except MlcatError as error:
        yield _failure(f"{_PERMISSION}read workspaces", error)
        return
    wanted = [here for here in readers if config.workspaces.allows(here.workspace)]
    if [here.workspace for here in readers] != [DEFAULT_WORKSPACE]:
        names = ", ".join(here.workspace for here in wanted[:10])
        text = f"{len(wanted)} of {len(readers)} selected: {names}"
        hint = None if wanted else "correct `workspaces`" if readers else OMITS
        yield Finding(WORKSPACES, "ok" if wanted else "warning", text, hint)
    accepted = False
    for here in wanted:
        where = f" in workspace {here.workspace}" if len(readers) > 1 else ""
        # Without a version, all of these list logged models, or nothing.
        has_listing = version is None and read_by in {"Databricks", "database"}
        logs_models = has_listing or MlflowFeature.LOGGED_MODELS.is_in(version or "")
        for finding in _permissions(here, config, where, logs_models=logs_models):
            accepted |= finding.outcome != "failed"
            yield finding
    if accepted:
        yield Finding("MLflow credentials", "ok", f"accepted: {how}")
        yield _server_id(reader, is_own=config.server_id is not None or read_by == "Databricks")


def _server_id(reader: Reader, *, is_own: bool) -> Finding:
    what = "MLflow server id"
    try:
        identity = reader.server_id()
        listed = {one.experiment_id for page in reader.experiments() for one in page}
    except MlcatError as error:
        return _failure(what, error)
    if is_own or "0" in listed:
        return Finding(what, "ok", identity)
    hint = f"set `server_id: {identity}`, or it changes once experiment 0 is listed"
    return Finding(
        what, "warning", f"{identity}: of the address, since experiment 0 is not listed", hint
    )


def _version(version: str | None, read_by: ReadBy) -> Finding:
    what = "MLflow version"
    if version is None:
        reporter = "Databricks" if read_by == "Databricks" else f"the {read_by}"
        text = f"not reported by {reporter}"
        return Finding(what, "warning" if read_by == "server" else "ok", text)
    problem = support_warning(version, read_by)
    return Finding(what, "warning" if problem else "ok", problem or version)


def _experiments(
    reader: Reader, config: MlflowConfig, where: str
) -> tuple[Finding, Sequence[Experiment]]:
    """Return whether experiments can be listed, and those that the recipe asks for."""
    what = f"{_PERMISSION}read experiments"
    try:
        experiments = list(chain.from_iterable(reader.experiments()))
    except MlcatError as error:
        return _failure(what, error), ()
    wanted = [one for one in experiments if config.experiments.allows(one.name)]
    text = f"{len(wanted)} of {len(experiments)} selected"
    if wanted:
        return Finding(what, "ok", text + where), wanted
    hint = OMITS
    if experiments:
        hint = "no experiment matches; correct `experiments.allow` and `experiments.deny`"
    return Finding(what, "warning", text + where, hint), ()


def _permissions(
    reader: Reader, config: MlflowConfig, where: str, *, logs_models: bool
) -> Iterator[Finding]:
    """Yield a finding for each permission that a run needs in one workspace."""

    def tried(permission: str, look: Callable[[], str]) -> Finding:
        what = _PERMISSION + permission
        try:
            return Finding(what, "ok", look() + where)
        except MlcatError as error:
            return _failure(what, error)

    def granted(pages: Iterator[object]) -> str:
        next(pages, None)
        return "granted"

    finding, wanted = _experiments(reader, config, where)
    yield finding
    ids = [one.experiment_id for one in wanted[-1:]]
    if ids:
        newest = RunFilter(limit=1)
        yield tried(
            "read runs", lambda: "granted" if any(reader.runs(ids, only=newest)) else "none yet"
        )
    models = tried("read registered models", lambda: str(sum(map(len, reader.registered_models()))))
    yield models
    # Listed once and kept.
    if models.outcome == "ok" and any(reader.registered_models()):
        yield tried("read model versions", lambda: granted(reader.model_versions()))
    if ids and logs_models:
        yield tried("read logged models", lambda: granted(reader.logged_models(ids)))
    if refused := reader.refusals.take():
        named = f"{refused[0].reference}: {refused[0].reason}"
        text = f"{len(refused)} cannot be read, the first: {named}"
        yield Finding("MLflow records", "warning", text + where)


def links_finding(config: MlflowConfig, status: int | None = None) -> Finding:
    """Return whether entities have links that lead to pages; `status` is that of MLflow's page."""
    what = "MLflow links"
    address = config.public_uri if config.ui_url is None else config.ui_url
    if config.ui_url is None and not is_http(config.tracking_uri):
        return Finding(what, "warning", "entities have no link to MLflow", "set `ui_url`")
    if status == HTTPStatus.NOT_FOUND:
        hint = "set `ui_url` to the address of MLflow in a browser, with its path prefix"
        return Finding(what, "warning", f"{address} has no page (404): links lead nowhere", hint)
    return Finding(what, "ok", address)


def _failure(what: str, error: MlcatError) -> Finding:
    return Finding(what, "failed", error.message, error.hint)
