"""MCP servers, tools, skills, prompts and agents in a real MLflow, by its own API."""

import json
from collections.abc import Mapping
from typing import Any

import requests

SECRET = "s3cr3t-value-of-a-header"
SERVERS, TOOLS, SKILLS, PROMPTS, AGENTS = 3, 40, 5, 20, 2


class AiStore:
    """The API of a server, in one workspace."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        reply = requests.request(method, f"{self._url}/api/{path}", json=body, timeout=60)
        assert reply.ok, f"{path}: {reply.status_code} {reply.text}"
        return reply.json()

    def mcp(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self.ask(method, f"3.0/mlflow/mcp-servers{path}", body)

    def skill(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self.ask(method, f"3.0/mlflow/skills{path}", body)

    def registry(self, path: str, method: str = "POST", **body: Any) -> Any:
        return self.ask(method, f"2.0/mlflow/{path}", body)

    def add_server_version(
        self, name: str, version: str, tools: list[str], status: str = "active", **more: Any
    ) -> None:
        server_json = {
            "name": name,
            "version": version,
            "title": f"Server {name}",
            "description": f"What {name} does, version {version}",
            "repository": {"url": "https://github.com/example/server", "source": "github"},
            "remotes": [
                {
                    "type": "streamable-http",
                    "url": "https://mcp.example.com/v1",
                    "headers": [
                        {"name": "Authorization", "value": f"Bearer {SECRET}", "isSecret": True},
                        {"name": "X-Tenant", "value": "acme"},
                        {"name": "X-Session", "value": "{session}"},
                    ],
                }
            ],
            **more,
        }
        schema = {"type": "object", "properties": {"q": {"type": "string"}}}
        described = ({"name": tool, "description": f"Does {tool}"} for tool in tools)
        listed = [{**one, "inputSchema": schema} for one in described]
        body = {"server_json": server_json, "status": status, "tools": listed}
        self.mcp("POST", f"/{name}/versions", body)

    def delete_server(self, name: str) -> None:
        for one in self.mcp("GET", f"/{name}/versions")["mcp_server_versions"]:
            if one["status"] == "active":
                self.mcp("PATCH", f"/{name}/versions/{one['version']}", {"status": "draft"})
        self.mcp("DELETE", f"/{name}")

    def delete_skill(self, name: str) -> None:
        for version in (1, 2):
            self.skill("PATCH", f"/{name}/versions/{version}", {"status": "draft"})
        self.skill("DELETE", f"/{name}")

    def add_skill(self, name: str, organization: str = "") -> None:
        path = f"@{organization}/{name}" if organization else name
        described = {"organization": organization, "description": f"When to use {name}"}
        self.skill("POST", "", {"name": name, **described})
        for ref in ("v1", "v2"):
            body = {
                "source_type": "git",
                "source": "https://github.com/example/skills",
                "ref": ref,
                "subpath": name,
                "digest": "a" * 63 + ref[-1],
            }
            self.skill("POST", f"/{path}/versions", body)
        self.skill("POST", f"/{path}/aliases", {"alias": "stable", "version": 1})
        self.skill("POST", f"/{path}/tags", {"key": "team", "value": "search"})
        for version, stage in enumerate(("old", "new"), 1):
            tag = {"key": "stage", "value": stage}
            self.skill("POST", f"/{path}/versions/{version}/tags", tag)

    def add_prompt(self, name: str, *texts: str) -> None:
        tag = {"key": "mlflow.prompt.is_prompt", "value": "true"}
        tags = [tag, {"key": "team", "value": "support"}]
        self.registry("registered-models/create", name=name, tags=tags)
        for text in texts:
            self.add_prompt_version(name, text)

    def add_prompt_version(self, name: str, text: str) -> None:
        tags = [
            {"key": "mlflow.prompt.is_prompt", "value": "true"},
            {"key": "mlflow.prompt.text", "value": text},
            {"key": "stage", "value": "new"},
        ]
        made = {"name": name, "description": f"Why {text[:20]}"}
        self.registry("model-versions/create", source="dummy-source", tags=tags, **made)

    def add_run(self, prompts: list[str]) -> str:
        """Add a run that uses prompts; return its id."""
        linked = json.dumps([{"name": name, "version": "1"} for name in prompts])
        tags = [{"key": "mlflow.linkedPrompts", "value": linked}]
        made = self.registry("runs/create", experiment_id="0", start_time=1, tags=tags)
        run_id = str(made["run"]["info"]["run_id"])
        self.registry("runs/update", run_id=run_id, status="FINISHED", end_time=2)
        return run_id

    def add_agent(self, name: str, tags: Mapping[str, str], params: Mapping[str, str]) -> str:
        """Add an external model of type agent, as `create_external_model` does; return its id."""
        every = {"mlflow.model.isExternal": "true", **tags}
        body = {
            "experiment_id": "0",
            "name": name,
            "model_type": "agent",
            "tags": [{"key": key, "value": value} for key, value in every.items()],
            "params": [{"key": key, "value": value} for key, value in params.items()],
        }
        made = self.ask("POST", "2.0/mlflow/logged-models", body)["model"]["info"]["model_id"]
        ready = {"model_id": made, "status": "LOGGED_MODEL_READY"}
        self.ask("PATCH", f"2.0/mlflow/logged-models/{made}", ready)
        return str(made)

    def tag_agent(self, model_id: str, value: str) -> None:
        body = {"tags": [{"key": "mlcat.uses", "value": value}]}
        self.ask("PATCH", f"2.0/mlflow/logged-models/{model_id}/tags", body)

    def delete_agent(self, model_id: str) -> None:
        self.ask("DELETE", f"2.0/mlflow/logged-models/{model_id}")


def seed(url: str) -> AiStore:
    """Fill a server with as many assets as the constants say."""
    store = AiStore(url)
    for number in range(SERVERS):
        name = f"com.example/server-{number}"
        tools = [f"tool_{index}" for index in range(number, TOOLS, SERVERS)]
        store.add_server_version(name, "1.9.0", tools[:1])
        store.add_server_version(name, "1.10.0", tools)
        store.add_server_version(name, "2.0.0-rc.1", tools[:1], status="draft")
        store.mcp("POST", f"/{name}/aliases", {"alias": "prod", "version": "1.9.0"})
        store.mcp("POST", f"/{name}/tags", {"key": "team", "value": "search"})
        for version, stage in (("1.9.0", "old"), ("1.10.0", "new"), ("2.0.0-rc.1", "next")):
            tag = {"key": "stage", "value": stage}
            store.mcp("POST", f"/{name}/versions/{version}/tags", tag)
    endpoint = {"url": "https://gateway.example.com/mcp", "transport_type": "sse"}
    store.mcp("POST", "/com.example/server-1/endpoints", {**endpoint, "server_version": "1.10.0"})
    for number in range(SKILLS):
        store.add_skill(f"skill-{number}", "acme" if number == 0 else "")
    for number in range(PROMPTS):
        texts = [f"Answer {{{{question}}}}, version {index}" for index in range(1 + number % 3)]
        store.add_prompt(f"prompt-{number}", *texts)
    alias = {"name": "prompt-2", "alias": "production", "version": "1"}
    store.registry("registered-models/alias", **alias)
    store.registry("registered-models/create", name="a model")
    store.registry("model-versions/create", name="a model", source="s3://bucket/model")
    store.registry("registered-models/alias", name="a model", alias="best", version="1")
    helper = store.add_agent("helper", {}, {"llm": "models:/a model/1", "temperature": "0.2"})
    uses = ["skills:/@acme/skill-0/1", "mcp-servers:/com.example/server-1", "skills:/none"]
    uses.append("mcp-servers:/com.example/server-2#tool_2")
    params = {"llm": "models:/a model@best", "team": json.dumps([f"models:/{helper}"])}
    store.add_agent("planner", {"mlcat.uses": ", ".join(uses)}, params)
    store.add_run(["prompt-2"])
    return store
