"""A Databricks workspace as its documentation and MLflow's own client describe it.

The data and the search language are those of a real MLflow server behind it. What differs is done
here: sign-in, limits, refusals, opaque page tokens, Unity Catalog's endpoints, files by signed
addresses, and no endpoint that Databricks does not have. Nobody compared it with a live Databricks.

Source: databricks-sdk 0.156 (limits, OAuth), MLflow 3.17 (endpoints), mlflow/mlflow#13590, #7967
and #15671 (refusals).
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import requests

from mlcat_ingest.testing.service import (
    FailingService,
    ServiceAnswer,
    ServiceRequest,
    failing_service,
)

TOKEN = "dapi-hunter2"
CLIENT = ("6a1c-client", "dose-hunter2")

API = "/api/2.0/mlflow/"
UNITY_CATALOG = "unity-catalog/"
MOST_EXPERIMENTS = 100
MOST_LOGGED_MODELS = 50
ORDERS = {"name", "last_update_time"}
BY_NAME = re.compile(r"name\s*=\s*(['\"]).+\1", re.DOTALL)
THREE_LEVELS = re.compile(r"[^.]+\.[^.]+\.[^.]+")


class RefusedError(Exception):
    """The answer that refuses a request."""

    def __init__(self, status: int, code: str, message: str = "because") -> None:
        super().__init__(message)
        self.answer = as_json({"error_code": code, "message": message}, status)


def as_json(value: Any, status: int = 200) -> ServiceAnswer:
    return ServiceAnswer(status, json.dumps(value).encode())


@dataclass
class Databricks:
    """A workspace; `accepted` are the tokens that are valid, `calls` the API calls, in order."""

    upstream: str
    url: str = ""
    accepted: set[str] = field(default_factory=lambda: {TOKEN})
    issued: int = 0
    lasts_s: int = 3600
    calls: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    def __call__(self, request: ServiceRequest) -> ServiceAnswer:
        try:
            return self._answer(request)
        except RefusedError as refused:
            return refused.answer

    def _answer(self, request: ServiceRequest) -> ServiceAnswer:
        parts = urlsplit(request.path)
        headers = {name.lower(): value for name, value in request.headers.items()}
        if parts.path == "/oidc/v1/token":
            return self._issue(request, headers)
        if parts.path == "/oidc/.well-known/oauth-authorization-server":
            addresses = ("token_endpoint", "authorization_endpoint")
            return as_json(dict.fromkeys(addresses, f"{self.url}/oidc/v1/token"))
        if parts.path == "/.well-known/databricks-config":
            return as_json({"oidc_endpoint": f"{self.url}/oidc"})
        if parts.path.startswith("/signed/"):
            return self._file(parts.path, headers)
        self.headers.append(headers)
        if headers.get("authorization", "").removeprefix("Bearer ") not in self.accepted:
            raise RefusedError(401, "UNAUTHENTICATED", "Credential was not sent or is not valid")
        if not parts.path.startswith(API):
            raise RefusedError(404, "ENDPOINT_NOT_FOUND", f"No API found for {parts.path}")
        name = parts.path.removeprefix(API)
        self.calls.append(f"{request.method} {name}")
        if request.method == "POST":
            return self._post(name, json.loads(request.body))
        return self._get(name, parse_qsl(parts.query))

    def _issue(self, request: ServiceRequest, headers: Mapping[str, str]) -> ServiceAnswer:
        form = parse_qs(request.body.decode())
        assert form == {"grant_type": ["client_credentials"], "scope": ["all-apis"]}
        basic = base64.b64encode(":".join(CLIENT).encode()).decode()
        if request.method != "POST" or headers.get("authorization") != f"Basic {basic}":
            return as_json({"error": "invalid_client", "error_description": "hunter2"}, 401)
        self.issued += 1
        self.accepted = {f"{TOKEN}-{self.issued}"}
        token = {"access_token": f"{TOKEN}-{self.issued}", "token_type": "Bearer"}
        return as_json({**token, "expires_in": self.lasts_s})

    def _post(self, name: str, body: dict[str, Any]) -> ServiceAnswer:
        if name.endswith(("credentials-for-read", "credentials-for-download")):
            return self._signed(name, body)
        if name == "experiments/search":
            if {one.partition(" ")[0] for one in body.get("order_by", ())} - ORDERS:
                raise RefusedError(400, "INVALID_PARAMETER_VALUE", "Invalid order_by")
        elif name in {"runs/search", "logged-models/search"}:
            self._check_search(name, body)
        else:
            raise RefusedError(404, "ENDPOINT_NOT_FOUND")
        return self._forward("POST", name, body=body)

    def _check_search(self, name: str, body: Mapping[str, Any]) -> None:
        found = len(body.get("experiment_ids", ()))
        if found > MOST_EXPERIMENTS:
            raise RefusedError(
                400,
                "INVALID_PARAMETER_VALUE",
                f"Too many `experiment_ids` specified in SearchRuns request. Maximum allowed "
                f"number of experiment IDs is {MOST_EXPERIMENTS}. Found {found}",
            )
        if name == "logged-models/search" and (
            body.get("max_results", 0) > MOST_LOGGED_MODELS
            or "source_run_id" in body.get("filter", "")
        ):
            raise RefusedError(400, "INVALID_PARAMETER_VALUE")

    def _get(self, name: str, query: list[tuple[str, str]]) -> ServiceAnswer:
        in_unity_catalog = name.startswith(UNITY_CATALOG)
        plain = name.removeprefix(UNITY_CATALOG)
        given = dict(query)
        listing = plain.removesuffix("/search")
        if listing == plain:
            by_name = plain.partition("/")[2] in {"get", "list"} or "artifacts" in plain
            if not by_name and not plain.startswith("logged-models/m-"):
                raise RefusedError(404, "ENDPOINT_NOT_FOUND")
            return self._forward("GET", plain, query=query)
        if listing not in {"registered-models", "model-versions"}:
            raise RefusedError(404, "ENDPOINT_NOT_FOUND")
        if in_unity_catalog and "order_by" in given:
            raise RefusedError(400, "INVALID_PARAMETER_VALUE", "order_by")
        if listing == "model-versions":
            if not BY_NAME.fullmatch(given.get("filter", "")):
                raise RefusedError(400, "INVALID_PARAMETER_VALUE", "Missing filter: name = '…'")
        elif given.get("filter"):
            raise RefusedError(400, "INVALID_PARAMETER_VALUE", "filter")
        answer = self._forward("GET", plain, query=query)
        return self._of_catalog(answer, listing, unity=in_unity_catalog)

    def _of_catalog(self, answer: ServiceAnswer, listing: str, *, unity: bool) -> ServiceAnswer:
        """Return those items of a page that are in this registry, as it lists them."""
        page = json.loads(answer.body)
        key = listing.replace("-", "_")
        items = [
            item
            for item in page.get(key, ())
            if (THREE_LEVELS.fullmatch(item["name"]) is not None) == unity
        ]
        for item in items if unity else ():
            for left_out in ("tags", "aliases", "current_stage", "latest_versions"):
                item.pop(left_out, None)
        return as_json({**page, key: items}, answer.status)

    def _forward(
        self,
        method: str,
        name: str,
        *,
        query: list[tuple[str, str]] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> ServiceAnswer:
        if body is not None and "page_token" in body:
            body = {**body, "page_token": _inward(body["page_token"])}
        pairs = [(key, _inward(it) if key == "page_token" else it) for key, it in query or ()]
        address = f"{self.upstream}{API}{name}?{urlencode(pairs)}"
        reply = requests.request(method, address, json=body, timeout=60)
        found = reply.json()
        if found.get("next_page_token"):
            found["next_page_token"] = found["next_page_token"].encode().hex()
        return as_json(found, reply.status_code)

    def _signed(self, name: str, body: Mapping[str, Any]) -> ServiceAnswer:
        [path] = body.get("path") or body["paths"]
        owner = body.get("run_id") or name.split("/")[1]
        kind = "run" if "run_id" in body else "model"
        info = {
            "path": path,
            "signed_uri": f"{self.url}/signed/{kind}/{owner}/{path}?signature=hunter2",
            "headers": [{"name": "x-signed", "value": "yes"}],
            "type": "AWS_PRESIGNED_URL",
        }
        if kind == "run":
            return as_json({"credential_infos": [{**info, "run_id": owner}]})
        return as_json({"credentials": [{"model_id": owner, "credential_info": info}]})

    def _file(self, path: str, headers: Mapping[str, str]) -> ServiceAnswer:
        # Storage refuses a request with two kinds of credentials.
        if "authorization" in headers or headers.get("x-signed") != "yes":
            return ServiceAnswer(400, b"<Error/>")
        _, _, kind, owner, file = path.split("/", 4)
        if kind == "run":
            address = f"/get-artifact?{urlencode({'path': file, 'run_uuid': owner})}"
        else:
            query = urlencode({"artifact_file_path": file})
            address = f"/ajax-api/2.0/mlflow/logged-models/{owner}/artifacts/files?{query}"
        reply = requests.get(self.upstream + address, timeout=60)
        return ServiceAnswer(reply.status_code, reply.content)


def _inward(token: str) -> str:
    try:
        return bytes.fromhex(token).decode()
    except ValueError:
        raise RefusedError(400, "INVALID_PARAMETER_VALUE", "Invalid page_token") from None


@contextmanager
def databricks_over(upstream: str) -> Iterator[tuple[Databricks, FailingService]]:
    """Serve a workspace that holds what the MLflow server at `upstream` holds."""
    workspace = Databricks(upstream)
    with failing_service(workspace) as service:
        workspace.url = service.url
        yield workspace, service
