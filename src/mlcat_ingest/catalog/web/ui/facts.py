"""The overview of an entity's page: facts, metrics, parameters and custom properties."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from mlcat_ingest.catalog.schema.virtual import Identity
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.lineage import versions_of
from mlcat_ingest.catalog.web.ui.lists import (
    FIRST_STEP,
    PROPERTIES,
    Aspects,
    at_first_step,
    display_name,
    trial_of,
    value_of,
)
from mlcat_ingest.catalog.web.ui.text import (
    created_at,
    duration,
    entity_href,
    parsed,
    scalar,
    stamp,
    web_address,
)
from mlcat_ingest.metadata.aspects.assets import TEST_RESULTS
from mlcat_ingest.metadata.aspects.common import BROWSE_PATHS_V2, STATUS, SUB_TYPES
from mlcat_ingest.metadata.aspects.governance import (
    DOMAINS,
    GLOBAL_TAGS,
    GLOSSARY_TERMS,
    INSTITUTIONAL_MEMORY,
    OWNERSHIP,
)
from mlcat_ingest.metadata.aspects.ml import (
    ML_MODEL_EVALUATION_DATA,
    ML_MODEL_TRAINING_DATA,
    SOURCE_CODE,
)
from mlcat_ingest.metadata.aspects.processes import (
    DATA_PROCESS_INSTANCE_INPUT,
    ML_TRAINING_RUN_PROPERTIES,
)
from mlcat_ingest.metadata.mlflow_keys import (
    COMMIT_TAGS,
    DATASETS,
    PARENT_RUN,
    PARENT_RUN_ID,
    PARENT_RUN_NAME,
    PARENT_TAG,
    RUN_DURATION,
    RUN_MODEL,
    RUN_STATUS,
    VERSIONS,
)
from mlcat_ingest.metadata.reserved import OWN_PREFIX

_REFERENCES: Final = (
    ("Owners", OWNERSHIP, "owners", "owner"),
    ("Tags", GLOBAL_TAGS, "tags", "tag"),
    ("Glossary terms", GLOSSARY_TERMS, "terms", "urn"),
    ("Trained on", ML_MODEL_TRAINING_DATA, "trainingData", "dataset"),
    ("Evaluated on", ML_MODEL_EVALUATION_DATA, "evaluationData", "dataset"),
)
_MLFLOW: Final = "mlflow."

_ON_TOP: Final = frozenset(
    {
        *(RUN_STATUS, RUN_DURATION, RUN_MODEL),
        *(PARENT_RUN, PARENT_RUN_ID, PARENT_RUN_NAME, PARENT_TAG),
    }
)
"""Custom properties that the page shows as facts, or in its head."""

_FIRST: Final = (
    *("Status", "Duration", "Commit", "Trained on", "Evaluated on", "Datasets", "MLflow"),
)
"""The facts that come first, in their order."""

_COMMIT_CHARS: Final = 12
_LABELLED_TAGS: Final = frozenset({"Tags", "Glossary terms"})


_SHOWN_IN_PLACE: Final = frozenset(
    {
        *PROPERTIES.values(),
        OWNERSHIP,
        GLOBAL_TAGS,
        GLOSSARY_TERMS,
        DOMAINS,
        STATUS,
        TEST_RESULTS,
        SOURCE_CODE,
        INSTITUTIONAL_MEMORY,
        BROWSE_PATHS_V2,
        DATA_PROCESS_INSTANCE_INPUT,
        ML_TRAINING_RUN_PROPERTIES,
        SUB_TYPES,
    }
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A text, and the address it links to if it does; `outside` addresses are not ours."""

    text: str
    href: str | None = None
    outside: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """A labelled line of the overview, shown as labels where `as_tags`."""

    label: str
    pieces: tuple[Piece, ...]
    as_tags: bool = False


def overview(
    store: Store, urn: str, aspects: Aspects, properties: Mapping[str, Any]
) -> Mapping[str, object]:
    """Return the overview of an entity: everything that has no other tab."""
    training = {**value_of(aspects, ML_TRAINING_RUN_PROPERTIES), **properties}
    return {
        "facts": facts_of(store, urn, aspects, properties),
        "metrics": metrics(training),
        "parameters": _hyper_parameters(training),
        "custom": _custom(properties, lambda name: not name.startswith((_MLFLOW, OWN_PREFIX))),
        "mlflow": _custom(
            properties, lambda name: name.startswith(_MLFLOW) and name not in _ON_TOP
        ),
        "bookkeeping": _custom(properties, lambda name: name.startswith(OWN_PREFIX)),
        "definition": _definition(properties.get("definition")),
        "others": [
            (name, _pretty(stored.value))
            for name, stored in aspects.items()
            if name not in _SHOWN_IN_PLACE and not name.endswith("Key")
        ],
    }


def _definition(definition: object) -> str:
    """Return the text of a metadata test, laid out if it is JSON."""
    text = scalar(definition.get("json")) if isinstance(definition, Mapping) else ""
    try:
        return _pretty(orjson.loads(text))
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return text  # no JSON, or nested too deeply to be laid out


def _pretty(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def facts_of(
    store: Store, urn: str, aspects: Aspects, properties: Mapping[str, Any]
) -> tuple[Fact, ...]:
    """Return the facts that the entity has, in the order of the page; missing ones are left out.

    Cost: one SQL statement, for the names of what is referred to; for a run a search, for its
    registered versions.
    """
    custom = properties.get("customProperties") or {}
    source_code = value_of(aspects, SOURCE_CODE).get("sourceCode")
    memory = value_of(aspects, INSTITUTIONAL_MEMORY).get("elements")
    facts = [
        _line("Status", f"{custom.get(RUN_STATUS, '')} {trial_of(custom)}".strip()),
        _line("Duration", duration(custom.get(RUN_DURATION, ""))),
        _line("Model type", properties.get("type")),
        _line("Data type", properties.get("dataType")),
        _line("Version", _version(properties.get("version"))),
        _line("Category", properties.get("category")),
        _line("Created", created_at(properties)),
        _line("Last modified", stamp(properties.get("lastModified"))),
        *_references(store, aspects, properties, _run_and_versions(store, urn, custom)),
        Fact("Datasets", tuple(_datasets_without_urn(custom.get(DATASETS)))),
        Fact(
            "MLflow" if Identity.of(urn).platform == "mlflow" else "Source",
            tuple(_outside(properties.get("externalUrl"))),
        ),
        *_code(custom, list(_links(source_code, "sourceCodeUrl"))),
        Fact("Links", tuple(_links(memory, "url", "description"))),
    ]
    order = {label: at for at, label in enumerate(_FIRST)}
    facts.sort(key=lambda fact: order.get(fact.label, len(order)))
    return tuple(fact for fact in facts if fact.pieces)


def _datasets_without_urn(text: str | None) -> Iterator[Piece]:
    """Yield the datasets of a run whose source names no place that the catalog could know."""
    datasets = parsed(text)
    for dataset in datasets if isinstance(datasets, list) else ():
        if isinstance(dataset, dict) and dataset.get("name") and not dataset.get("urn"):
            yield Piece(" ".join(filter(None, map(scalar, map(dataset.get, ("name", "digest"))))))


def _code(custom: Mapping[str, str], addresses: Sequence[Piece]) -> Iterator[Fact]:
    """Yield the commit of a run, with the address of it if there is one, and other addresses."""
    commit = next((custom[tag] for tag in COMMIT_TAGS if custom.get(tag)), "")
    own = [piece for piece in addresses if commit and commit in piece.text]
    link = own[0].href if own else None
    yield Fact("Commit", (Piece(commit[:_COMMIT_CHARS], link, outside=True),) if commit else ())
    yield Fact("Code", tuple(piece for piece in addresses if piece not in own[:1]))


def metrics(properties: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the training metrics, by name; online ones are marked as such.

    Those of a version are often the first values, where its run has the last: the step is said.
    """
    online = (
        (f"{name} (online)", value) for name, value in _named_values(properties, "onlineMetrics")
    )
    first = at_first_step(properties)
    training = (
        (name, f"{value} at {FIRST_STEP}" if f"metrics.{name}" in first else value)
        for name, value in _named_values(properties, "trainingMetrics")
    )
    return sorted([*training, *online])


def _hyper_parameters(properties: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the hyper-parameters of both spellings, by name."""
    older = properties.get("hyperParameters")
    pairs = [(name, scalar(value)) for name, value in older.items()] if older else []
    return sorted(dict([*pairs, *_named_values(properties, "hyperParams")]).items())


def _custom(properties: Mapping[str, Any], wanted: Callable[[str], bool]) -> list[tuple[str, str]]:
    """Return the wanted custom properties, by name."""
    pairs = (properties.get("customProperties") or {}).items()
    return sorted((name, scalar(value)) for name, value in pairs if wanted(name))


def _run_and_versions(
    store: Store, urn: str, custom: Mapping[str, str]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the run of a version, and the registered versions of a run: label and URNs."""
    if run := custom.get(RUN_MODEL):
        yield "Run", [run]
    elif custom.get(VERSIONS):
        yield "Registered versions", versions_of(store, [urn])


def _named_values(properties: Mapping[str, Any], field: str) -> Iterator[tuple[str, str]]:
    for item in properties.get(field) or []:
        yield scalar(item.get("name")), scalar(item.get("value"))


def _line(label: str, text: object) -> Fact:
    return Fact(label, (Piece(text),) if isinstance(text, str) and text else ())


def _version(version: object) -> str:
    return scalar(version.get("versionTag")) if isinstance(version, Mapping) else ""


def _references(
    store: Store,
    aspects: Aspects,
    properties: Mapping[str, Any],
    more: Iterable[tuple[str, list[str]]],
) -> Iterator[Fact]:
    referred = {
        label: [entry[key] for entry in value_of(aspects, aspect).get(field) or [] if key in entry]
        for label, aspect, field, key in _REFERENCES
    }
    referred.update(more)
    referred["Domain"] = list(value_of(aspects, DOMAINS).get("domains") or [])
    for label, field in (("Sources", "sources"), ("Training jobs", "trainingJobs")):
        referred[label] = list(properties.get(field) or [])
    inputs = value_of(aspects, DATA_PROCESS_INSTANCE_INPUT)
    edges = (edge["destinationUrn"] for edge in inputs.get("inputEdges") or [])
    referred["Inputs"] = list(dict.fromkeys([*(inputs.get("inputs") or []), *edges]))
    stored = store.get_many([urn for urns in referred.values() for urn in urns])
    for label, urns in referred.items():
        pieces = (Piece(display_name(urn, stored.get(urn, {})), entity_href(urn)) for urn in urns)
        yield Fact(label, tuple(pieces), as_tags=label in _LABELLED_TAGS)


def _outside(address: object, text: object = None) -> Iterator[Piece]:
    """Yield a link to somewhere else; an address that is not safe to link to stays a text."""
    if isinstance(address, str) and address:
        yield Piece(text if isinstance(text, str) and text else address, web_address(address), True)


def _links(
    entries: Iterable[Mapping[str, Any]] | None, address: str, text: str = ""
) -> Iterator[Piece]:
    for entry in entries or ():
        yield from _outside(entry.get(address), entry.get(text))
