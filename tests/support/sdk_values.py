"""A value with every field for any aspect of the DataHub SDK, made from the SDK's own schema."""

from collections.abc import Mapping
from typing import Any

from datahub.metadata.schema_classes import ASPECT_NAME_MAP, KEY_ASPECTS

from mlcat_ingest.metadata.urn import KINDS, build

PARTS = {
    "mlModel": ("urn:li:dataPlatform:mlflow", "a name, (odd) 100%", "PROD"),
    "mlModelGroup": ("urn:li:dataPlatform:mlflow", "registered:a/b", "DEV"),
    "mlModelDeployment": ("urn:li:dataPlatform:sagemaker", "endpoint", "PROD"),
    "mlFeature": ("project.view", "feature"),
    "mlPrimaryKey": ("project.view", "key"),
    "mlFeatureTable": ("urn:li:dataPlatform:feast", "project.view"),
    "dataset": ("urn:li:dataPlatform:hive", "db.table", "PROD"),
    "dataPlatformInstance": ("urn:li:dataPlatform:mlflow", "eu"),
    "dataFlow": ("airflow", "flow", "PROD"),
    "dataJob": ("urn:li:dataFlow:(airflow,flow,PROD)", "job"),
    "versionSet": ("abc", "mlModel"),
}
"""The parts of a URN of each entity type that has more than one."""

_KEY_PARTS = {
    "origin": "PROD",
    "parent": build("dataset", *PARTS["dataset"]),
    "platform": "urn:li:dataPlatform:looker",
}

_SCALARS: Mapping[str, Any] = {
    "string": "text",
    "boolean": True,
    "int": 3,
    "long": 1_700_000_000_000,
    "float": 0.5,
    "double": 0.25,
    "bytes": "bytes",
}
# URNs whose entity type the schema does not say.
_UNTOLD = {
    ("DataPlatformInstance", "platform"): "dataPlatform",
    ("DataPlatformInstance", "instance"): "dataPlatformInstance",
    ("DomainAssociation", "domain"): "domain",
    ("StructuredPropertyValueAssignment", "propertyUrn"): "structuredProperty",
}
_COMPUTED = {
    ("VersionProperties", "isLatest"),
    ("Ownership", "ownerTypes"),
    ("Domains", "domainAssociations"),
}


def urn_of(entity_type: str) -> str:
    """Return a URN of an entity type, whether this package knows its parts or not."""
    if entity_type not in KINDS:
        names = [field.name for field in KEY_ASPECTS[entity_type].RECORD_SCHEMA.fields]
        parts = ",".join(_KEY_PARTS.get(name, f"some-{name}") for name in names)
        return f"urn:li:{entity_type}:{f'({parts})' if len(names) > 1 else parts}"
    return build(entity_type, *PARTS.get(entity_type, ("some-id",)))


def filled_aspect(name: str, entity_type: str) -> Any:
    """Return an instance of an aspect's class in which every field has a value."""
    cls = ASPECT_NAME_MAP[name]
    value = _value(cls.RECORD_SCHEMA, {}, ())
    if name == "testInfo":
        value["definition"]["json"] = "{}"
    if name == "versionSetProperties":
        value["latest"] = urn_of("mlModel")
    if name == "versionProperties":
        value["versionSet"] = build("versionSet", f"of-{entity_type}", entity_type)
    return cls.from_obj(value)


def _value(schema: Any, types: Mapping[str, str], active: tuple[str, ...]) -> Any:
    """Return a value of a schema; `types` says of which entity type the URNs in its fields are."""
    match schema.type:
        case "record" | "error":
            return {
                field.name: value
                for field in schema.fields
                if (schema.name, field.name) not in _COMPUTED
                and (value := _field(schema, field, types, active)) is not None
            }
        case "union":
            member = next(one for one in schema.schemas if one.type != "null")
            name = getattr(member, "fullname", member.type)
            value = _value(member, {"": types[name]} if name in types else types, active)
            if len([one for one in schema.schemas if one.type != "null"]) == 1 or value is None:
                return value
            return {name: value}
        case "array":
            return [value] if (value := _value(schema.items, types, active)) is not None else []
        case "map":
            return {"a key": _value(schema.values, types, active)}
        case "enum":
            return schema.symbols[0]
        case scalar:
            return urn_of(types[""]) if scalar == "string" and "" in types else _SCALARS[scalar]


def _field(schema: Any, field: Any, types: Mapping[str, str], active: tuple[str, ...]) -> Any:
    if schema.fullname in active:
        return None  # a record that holds itself, once is enough
    if field.name == "fieldDiscriminator":
        return field.type.symbols[0]
    union = schema.fields_dict.get("fieldDiscriminator")
    if union is not None and field.name != union.type.symbols[0]:
        return None
    here = _types(field.other_props or {})
    if (schema.name, field.name) in _UNTOLD:
        here = {"": _UNTOLD[schema.name, field.name]}
    if field.name in types:
        here = {"": types[field.name]}
    return _value(field.type, here, (*active, schema.fullname))


def _types(props: Mapping[str, Any]) -> dict[str, str]:
    """Return the entity types of the URNs in a field, by the name of the nested field or ""."""
    declared = props.get("Relationship")
    if "UrnValidation" in props:
        return {"": props["UrnValidation"]["entityTypes"][0]}
    if declared is not None:
        ((path, edge),) = {"": declared}.items() if "name" in declared else declared.items()
        at = path.removeprefix("/*").removeprefix("/").removesuffix("/*")
        return {at: edge["entityTypes"][0]}
    named = props.get("Urn")
    if named is None:
        return {}
    entity_type = str(named).removesuffix("Urn")
    kinds = {one.lower(): one for one in KINDS}
    return {"": (props.get("entityTypes") or [kinds.get(entity_type.lower(), "corpuser")])[0]}
