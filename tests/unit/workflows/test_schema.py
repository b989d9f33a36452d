from typing import Any

import pytest
from pydantic import BaseModel

from mlcat_ingest.errors import UnknownPluginError
from mlcat_ingest.workflows import resolve
from mlcat_ingest.workflows import schema as module
from mlcat_ingest.workflows.schema import json_schema


class Plugin(BaseModel, extra="forbid"):
    size: int


def test_installed_plug_ins_are_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = resolve.config_class

    def config_class(name: str) -> type[BaseModel]:
        if name == "broken":
            raise UnknownPluginError("broken")
        return Plugin if name == "good" else real(name)

    monkeypatch.setattr(module, "config_class", config_class)
    monkeypatch.setattr(module, "source_types", lambda: ["broken", "good", "mlflow"])
    definitions: dict[str, Any] = json_schema()["$defs"]
    assert definitions["SourceSpec"]["properties"]["type"]["anyOf"][0]["enum"] == [
        "broken",
        "good",
        "mlflow",
    ]
    branches = {
        branch["if"]["properties"]["type"]["const"]: branch["then"]
        for branch in definitions["SourceSpec"]["allOf"]
    }
    assert set(branches) == {"good", "mlflow"}
    assert branches["good"] == {
        "properties": {"config": {"$ref": "#/$defs/Plugin"}},
        "required": ["config"],
    }
    assert definitions["Plugin"]["properties"]["size"] == {
        "anyOf": [{"type": "integer"}, {"$ref": "#/$defs/Substitution"}]
    }
    built_in = json_schema(plugins=False)["$defs"]
    assert built_in["SourceSpec"]["properties"]["type"]["anyOf"][0]["enum"] == sorted(
        resolve.SOURCES
    )


def test_every_field_says_what_it_is() -> None:
    silent = [
        f"{name}.{field}"
        for name, definition in json_schema(plugins=False)["$defs"].items()
        for field, about in definition.get("properties", {}).items()
        if "description" not in about and "$ref" not in about
    ]
    assert silent == []
