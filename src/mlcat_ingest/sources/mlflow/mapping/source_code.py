"""The web address of the commit that a run was started from, as the `sourceCode` aspect."""

import re
from collections.abc import Mapping
from typing import Final

from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.sources.mlflow.values.records import COMMIT_TAGS, REPO_TAGS

# git@host:path and ssh://git@host/path; no other address form names a user and no scheme.
_SCP = re.compile(r"^(?:[\w.-]+@)?([\w.-]+\.[\w-]+):(?!//)([\w./~-]+)$")

_URL = re.compile(r"^(?:git\+)?(https?|ssh|git)://(?:[^/]*@)?([^/:@]+)(:\d+)?/(.+)$")
_COMMIT = re.compile(r"^[0-9A-Za-z]{4,64}$")
NO_SOURCE_CODE: Final[Aspect] = {"sourceCode": []}


def source_code(tags: Mapping[str, str]) -> Aspect:
    """Return the `sourceCode` aspect of a run, empty where commit or repository is unknown."""
    commit = tags.get(COMMIT_TAGS[0]) or tags.get(COMMIT_TAGS[1])
    if not commit or not _COMMIT.match(commit):
        return NO_SOURCE_CODE
    for tag in REPO_TAGS:
        repository = tags.get(tag)
        url = commit_url(repository, commit) if repository else None
        if url:
            return {"sourceCode": [{"type": "TRAINING_PIPELINE_SOURCE_CODE", "sourceCodeUrl": url}]}
    return NO_SOURCE_CODE


def commit_url(repository: str, commit: str) -> str | None:
    """Return the web address of `commit` in `repository`, without credentials.

    None if `repository` is no address of a git server (a local path, a script's name).
    """
    address = repository.partition("#")[0].strip()
    if match := _URL.match(address):
        scheme, host, port, path = match.groups()
        web = f"http://{host}" if scheme == "http" else f"https://{host}"
        if port and scheme in {"http", "https"}:
            web += port
    elif match := _SCP.match(address):
        host, path = match.groups()
        web = f"https://{host}"
    else:
        return None
    path = path.strip("/").removesuffix(".git")
    if not path or any(char.isspace() or not char.isprintable() for char in path):
        return None
    return f"{web}/{path}{_at_commit(host.lower(), commit)}"


def _at_commit(host: str, commit: str) -> str:
    if "gitlab" in host:
        return f"/-/tree/{commit}"
    if "bitbucket" in host:
        return f"/src/{commit}"
    if host.endswith((".visualstudio.com", "dev.azure.com")):
        return f"?version=GC{commit}"
    return f"/tree/{commit}"
