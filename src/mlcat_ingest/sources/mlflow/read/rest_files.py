"""Files of runs and logged models, through the tracking server, which has access to them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mlcat_ingest.net.http import Reply
from mlcat_ingest.sources.mlflow.read.file_access import MAX_BYTES, FileLocation
from mlcat_ingest.sources.mlflow.read.replies import NO_SUCH_ENDPOINT, is_refusal, judged, object_of
from mlcat_ingest.sources.mlflow.read.server import API, MlflowServer

_FILE: Final = "/get-artifact"
_FILE_OF_MODEL: Final = "/ajax-api/2.0/mlflow/logged-models"
_MOST_PAGES: Final = 20


def text_of(
    server: MlflowServer, workspace: str | None, place: FileLocation, path: str
) -> str | None:
    """Return what a file holds; see `ReadsFiles`.

    The folder is listed first: the server answers as badly for a file that is not there as where
    its store does not answer.
    """
    folder = path.rpartition("/")[0]
    found = next(
        (one for one in _listed(server, workspace, place, folder) if one.get("path") == path), None
    )
    if found is None or found.get("is_dir") or int(found.get("file_size") or 0) > MAX_BYTES:
        return None
    if place.kind == "run":
        reply = _get(server, workspace, _FILE, [("path", path), ("run_uuid", place.id)])
    else:
        address = f"{_FILE_OF_MODEL}/{place.id}/artifacts/files"
        reply = _get(server, workspace, address, [("artifact_file_path", path)])
    return judged(reply, f"the file {path}").content.decode("utf-8", "replace")


def _listed(
    server: MlflowServer, workspace: str | None, place: FileLocation, folder: str
) -> Iterator[Mapping[str, Any]]:
    if place.kind == "run":
        address, params = f"{API}/artifacts/list", [("run_id", place.id)]
        params += [("path", folder)] if folder else []
    else:
        address = f"{API}/logged-models/{place.id}/artifacts/directories"
        params = [("artifact_directory_path", folder)] if folder else []
    token = ""
    for _ in range(_MOST_PAGES):
        more = [("page_token", token)] if token else []
        reply = _get(server, workspace, address, [*params, *more])
        if reply.status in NO_SUCH_ENDPOINT or (reply.status == 400 and is_refusal(reply)):
            return  # an older server, a model that is gone, a place that the server does not serve
        content = object_of(judged(reply, "files"))
        yield from (one for one in content.get("files") or () if isinstance(one, dict))
        token = content.get("next_page_token") or ""
        if not token:
            return


def _get(
    server: MlflowServer, workspace: str | None, address: str, params: list[tuple[str, str]]
) -> Reply:
    return server.get(server.tracking, address, params, workspace)
