"""AI assets as a catalog holds them: an MCP server with tools, a skill, a prompt, an agent."""

import gzip
from base64 import b64encode
from typing import Final

from mlcat_ingest.catalog.store.store import Store
from support.catalog_store import MLFLOW, model, put

SERVER: Final = "urn:li:service:mlflow.weather"
TOOLS: Final = tuple(f"urn:li:api:mlflow.weather.{name}" for name in ("forecast", "alerts"))
SKILL: Final = "urn:li:agentSkill:mlflow.travel"
PROMPT: Final = "urn:li:document:mlflow.packing"
AGENT: Final = "urn:li:aiAgent:mlflow.guide"
MODEL: Final = model("ranker")
URNS: Final = (SERVER, TOOLS[0], SKILL, PROMPT, AGENT, MODEL)
PACKED: Final = b64encode(gzip.compress(b'{"name": "weather"}')).decode()

_STAMP: Final = {"time": 1_780_000_000_000, "actor": "urn:li:corpuser:ada"}
_TAGS: Final = {"tags": [{"tag": "urn:li:tag:beta"}]}
_OWNERS: Final = {"owners": [{"owner": "urn:li:corpuser:ada", "type": "TECHNICAL_OWNER"}]}
_LINKS: Final = {
    "elements": [{"url": "https://wiki.example/x", "description": "Manual", "createStamp": _STAMP}]
}


def put_assets(store: Store, mark: str = "") -> None:
    """Write one entity of each kind; `mark` ends its texts."""
    put(
        store,
        SERVER,
        serviceProperties={
            "displayName": f"Weather {mark}".strip(),
            "description": f"Forecasts and *alerts*. {mark}",
            "apis": list(TOOLS),
            "lifecycle": "PRODUCTION",
            "customProperties": {
                "mlflow.repository": "https://git.example/weather",
                "team": f"sky {mark}",
            },
        },
        mcpServerProperties={
            "url": "https://weather.example/mcp",
            "transport": "SSE",
            "timeout": 30.0,
            "customHeaders": {"X-Key": "secret-value"},
        },
        serviceDefinition={
            "format": "JSON_SCHEMA",
            "rawSpec": {"blob": PACKED, "compression": "GZIP"},
            "version": "1.2.0",
        },
        subTypes={"typeNames": ["MCP_SERVER"]},
        globalTags=_TAGS,
        ownership=_OWNERS,
    )
    for tool in TOOLS:
        name = tool.rpartition(".")[2]
        properties = {"name": f"{name} {mark}".strip(), "description": f"Gives {name}. {mark}"}
        put(store, tool, apiProperties=properties, institutionalMemory=_LINKS)
    put(
        store,
        SKILL,
        agentSkillInfo={
            "name": f"Travel {mark}".strip(),
            "description": f"Plans a trip. {mark}",
            "instructions": f"# Ask\n\nfor the *dates*. {mark}",
            "sourceRepository": {"url": "https://git.example/skills", "path": "travel/SKILL.md"},
            "requiredTools": [TOOLS[0]],
        },
        globalTags=_TAGS,
    )
    ranker = {"name": f"ranker {mark}".strip(), "description": "Ranks trips."}
    put(store, MODEL, mlModelProperties=ranker)
    put(
        store,
        PROMPT,
        documentInfo={
            "title": f"Packing {mark}".strip(),
            "contents": {"text": f"What to pack for {{{{city}}}}?\n<b>Be brief.</b> {mark}"},
            "status": {"state": "PUBLISHED"},
            "created": _STAMP,
            "lastModified": _STAMP,
            "relatedAssets": [{"asset": MODEL}],
            "customProperties": {
                "task": "chat",
                "mlflow.description": f"For travellers. {mark}",
                "mlflow.latest_version": "11",
                **{f"mlflow.prompt.{number}": f"Text {number}. {mark}" for number in (2, 9, 10)},
            },
        },
        subTypes={"typeNames": ["Prompt"]},
        dataPlatformInstance={"platform": MLFLOW},
        ownership=_OWNERS,
    )
    put(
        store,
        AGENT,
        aiAgentInfo={
            "name": f"Guide {mark}".strip(),
            "tagline": "Knows the way",
            "instructions": f"Be kind. {mark}",
            "source": {"type": "EXTERNAL"},
            "created": _STAMP,
            "lastModified": _STAMP,
        },
        aiAgentDependencies={"skills": [SKILL], "tools": list(TOOLS), "models": [MODEL]},
    )
