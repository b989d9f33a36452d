"""JSON Schemas: of recipes with every type's configuration, of definitions, of metadata tests."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from mlcat_ingest.client.config import SINKS
from mlcat_ingest.errors import UnknownPluginError
from mlcat_ingest.metadata_tests.definition import NAMES, UNARY
from mlcat_ingest.recipe.metadata_test_files import TestInFile
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.definitions.format import DefinitionsDocument
from mlcat_ingest.workflows.resolve import SOURCES, config_class, source_types

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = {"$ref": "#/$defs/Substitution"}
_SUBSTITUTION = {
    "description": "Text that contains ${VAR}, ${VAR:-default}, ${VAR:?message} or ${file:/path}.",
    "type": "string",
    "pattern": r"\$\{",
}
_ABOUT = ("description", "default", "deprecated")
_NARROW = ("enum", "const", "pattern")


def json_schema(*, plugins: bool = True) -> dict[str, Any]:
    """Return the JSON Schema of recipes; `plugins=False` leaves out sources that are not built in.

    Wherever a value is narrower than text, a text with `${...}` in it is allowed as well.
    """
    sources = _source_models(source_types() if plugins else sorted(SOURCES))
    sinks = {name: model for name, (model, _) in SINKS.items()}
    models: dict[type[BaseModel], None] = dict.fromkeys(
        [Recipe, *(model for model in sources.values() if model), *sinks.values()]
    )
    references, schema = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/$defs/{model}"
    )
    definitions: dict[str, Any] = schema["$defs"]
    named = {model: references[model, "validation"]["$ref"].rpartition("/")[2] for model in models}
    _by_type(
        definitions["SourceSpec"],
        {t: named[m] if m else None for t, m in sources.items()},
        definitions,
    )
    _by_type(definitions["SinkSpec"], {t: named[m] for t, m in sinks.items()}, definitions)
    recipe = _with_other_spellings(definitions.pop(named[Recipe]))
    definitions["Substitution"] = _SUBSTITUTION
    for name, definition in definitions.items():
        if name != "Substitution":
            definitions[name] = _tidy(definition)
    return {
        "$schema": _DIALECT,
        "title": "mlcat-ingest recipe",
        **_tidy(recipe),
        "$defs": dict(sorted(definitions.items())),
    }


def definitions_schema() -> dict[str, Any]:
    """Return the JSON Schema of definitions files; nothing in them is substituted."""
    schema = DefinitionsDocument.model_json_schema(ref_template="#/$defs/{model}")
    definitions = schema.pop("$defs")
    plain = _tidy({**schema, "$defs": dict(sorted(definitions.items()))}, substituted=False)
    return {"$schema": _DIALECT, "title": "mlcat-ingest definitions", **plain}


def metadata_tests_schema() -> dict[str, Any]:
    """Return the JSON Schema of files of metadata tests."""
    reference = {"$ref": "#/$defs/Test"}
    tests = {"type": "array", "items": reference, "minItems": 1}
    listed = {
        "type": "object",
        "properties": {"tests": tests},
        "required": ["tests"],
        "additionalProperties": False,
    }
    return {
        "$schema": _DIALECT,
        "title": "mlcat-ingest metadata tests",
        "anyOf": [tests, reference, listed],
        "$defs": {"Predicate": _predicate_schema(), "Test": _test_schema()},
    }


_PREDICATE: Final = {"$ref": "#/$defs/Predicate"}
_TEXT: Final = {"type": "string", "minLength": 1}


def _predicate_schema() -> dict[str, Any]:
    value = {"type": ["string", "number", "boolean"]}
    comparison = {
        "type": "object",
        "properties": {
            "property": {**_TEXT, "description": "A dotted path: an aspect and its fields."},
            "operator": {"enum": sorted(NAMES)},
            "values": {"anyOf": [{"type": "array", "items": value}, value]},
        },
        "required": ["property", "operator"],
        "if": {"properties": {"operator": {"enum": sorted(UNARY)}}, "required": ["operator"]},
        "else": {"required": ["values"]},
    }
    combinations = [
        {"type": "object", "properties": {word: _PREDICATE}, "required": [word], "maxProperties": 1}
        for word in ("and", "or", "not")
    ]
    return {"anyOf": [comparison, *combinations, {"type": "array", "items": _PREDICATE}]}


def _test_schema() -> dict[str, Any]:
    types = {"type": "array", "items": _TEXT, "description": "Entity types."}
    about = {
        "type": "object",
        "properties": {"types": types, "conditions": _PREDICATE},
        "required": ["types"],
    }
    definition = {
        "type": "object",
        "properties": {"on": about, "rules": _PREDICATE},
        "required": ["on", "rules"],
    }
    schema: dict[str, Any] = _tidy(TestInFile.model_json_schema(), substituted=False)
    schema["properties"]["definition"] = definition
    return schema


def _source_models(types: Iterable[str]) -> dict[str, type[BaseModel] | None]:
    """Return the configuration of each type; None for a plug-in that cannot be used here."""
    models: dict[str, type[BaseModel] | None] = {}
    for name in types:
        try:
            models[name] = config_class(name)
        except UnknownPluginError:
            models[name] = None
    return models


def _by_type(
    spec: dict[str, Any], models: Mapping[str, str | None], definitions: Mapping[str, Any]
) -> None:
    """Let `type` in `spec` decide what `config` has to be."""
    spec["properties"]["type"]["enum"] = list(models)
    spec["properties"]["config"] = {"description": spec["properties"]["config"]["description"]}
    spec["allOf"] = [
        _branch(name, model, definitions[model]) for name, model in models.items() if model
    ]


def _branch(name: str, model: str, definition: Mapping[str, Any]) -> dict[str, Any]:
    reference = {"$ref": f"#/$defs/{model}"}
    demanding = "required" in definition or "allOf" in definition
    then: dict[str, Any] = {"properties": {"config": reference}, "required": ["config"]}
    if not demanding:
        then = {"properties": {"config": {"anyOf": [reference, {"type": "null"}]}}}
    return {"if": {"properties": {"type": {"const": name}}, "required": ["type"]}, "then": then}


def _with_other_spellings(recipe: dict[str, Any]) -> dict[str, Any]:
    """Return the recipe's schema with `source`, `pipeline_name` and `$schema`."""
    properties = recipe["properties"]
    properties["source"] = {"$ref": "#/$defs/SourceSpec", "description": "The only source."}
    properties["pipeline_name"] = {**properties["name"], "deprecated": True}
    properties["$schema"] = {"type": "string", "description": "For editors; ignored."}
    recipe.pop("required")  # only `sources`, which `source` may stand for
    recipe["oneOf"] = [{"required": ["sources"]}, {"required": ["source"]}]
    recipe["not"] = {"required": ["name", "pipeline_name"]}
    return recipe


def _tidy(schema: Any, *, substituted: bool = True) -> Any:
    """Return `schema` without titles, and if `substituted` with `${...}` where it could stand."""
    if isinstance(schema, list):
        return [_tidy(item, substituted=substituted) for item in schema]
    if not isinstance(schema, dict):
        return schema
    parts = ((key, value) for key, value in schema.items() if key != "title")
    out = {key: _tidy_part(key, value, substituted=substituted) for key, value in parts}
    return _or_substitution(out) if substituted else out


def _tidy_part(key: str, value: Any, *, substituted: bool) -> Any:
    if key in {"if", "enum", "const", "default", "required", "examples"}:
        return value
    if key in {"properties", "$defs"}:
        return {name: _tidy(item, substituted=substituted) for name, item in value.items()}
    if key == "description":
        return " ".join(value.split())
    return _tidy(value, substituted=substituted)


def _or_substitution(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if kind not in {"integer", "number", "boolean"} and not (
        kind == "string" and any(word in schema for word in _NARROW)
    ):
        return schema
    about = {key: value for key, value in schema.items() if key in _ABOUT}
    narrow = {key: value for key, value in schema.items() if key not in _ABOUT}
    return {"anyOf": [narrow, _REFERENCE], **about}
