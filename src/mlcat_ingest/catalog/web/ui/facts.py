"""The overview of an entity's page: facts, metrics, parameters and custom properties."""

import csv
import re
import zlib
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain, starmap
from operator import itemgetter
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote, unquote

import orjson

from mlcat_ingest.catalog.schema.tables import edge
from mlcat_ingest.catalog.schema.virtual import Identity
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.lineage import versions_of
from mlcat_ingest.catalog.web.ui.lists import (
    PAGE_ROWS,
    PROPERTIES,
    Aspects,
    ListColumn,
    Listing,
    display_name,
    model_rows,
    properties_of,
    referrers,
    trial_of,
    value_of,
)
from mlcat_ingest.catalog.web.ui.text import (
    Rounded,
    created_at,
    duration,
    entity_href,
    entity_type,
    file_size,
    rounded,
    scalar,
    stamp,
    web_address,
)
from mlcat_ingest.core.text import in_words, json_or_none
from mlcat_ingest.metadata.aspects import (
    BROWSE_PATHS_V2,
    INSTITUTIONAL_MEMORY,
    ML_MODEL_EVALUATION_DATA,
    ML_MODEL_PROPERTIES,
    ML_MODEL_TRAINING_DATA,
    ML_TRAINING_RUN_PROPERTIES,
    SCHEMA_METADATA,
    SERVICE_DEFINITION,
    SOURCE_CODE,
    STATUS,
    SUB_TYPES,
    TEST_RESULTS,
    VERSION_PROPERTIES,
)
from mlcat_ingest.metadata.labels import name_in
from mlcat_ingest.metadata.mlflow_keys import (
    COMMIT_TAGS,
    DATASETS,
    FRAMEWORK_VERSIONS,
    LOGGED_MODELS,
    MODEL_FLAVORS,
    MODEL_SIZE_BYTES,
    OF_LOGGED_MODEL,
    PARENT_RUN,
    PARENT_RUN_ID,
    PARENT_RUN_NAME,
    PARENT_TAG,
    PROMPT,
    RUN_DURATION,
    RUN_MODEL,
    RUN_STATUS,
    SIGNATURE,
    SIGNATURE_PARTS,
    VERSIONS,
)
from mlcat_ingest.metadata.reserved import OWN_PREFIX

_MLFLOW: Final = ("mlflow.", "tag.mlflow.")

_ON_TOP: Final = frozenset(
    {
        *(RUN_STATUS, RUN_DURATION, RUN_MODEL),
        *(PARENT_RUN, PARENT_RUN_ID, PARENT_RUN_NAME, PARENT_TAG),
        *(MODEL_FLAVORS, FRAMEWORK_VERSIONS, MODEL_SIZE_BYTES),
    }
)
"""Custom properties that the page shows as facts, or in its head."""

_TABLED: Final = frozenset({SIGNATURE, *SIGNATURE_PARTS.values(), LOGGED_MODELS, DATASETS})
"""Custom properties that the page shows as tables, if they have the form for it."""

_PARTS: Final = {"inputs": "input", "outputs": "output", "params": "parameter"}
_MOST_NESTED: Final = 8
_OF_LOGGED_MODELS: Final = ("step", "status", "type", "params", "tags", "id", "run")
_COLUMN: Final = (("Name", "fieldPath"), ("Type", "nativeDataType"), ("Description", "description"))
_OF_DATASETS: Final = ("context", "rows", "source_type", "part", "digest")

_RUN_PAGE: Final = re.compile(
    r"(https?://[^#]*/#/)experiments/([^/?#]+)/runs/([^/?#]+)(?:\?([^#]*))?", re.IGNORECASE
)

_OF_MODEL: Final = re.compile(rf"(?:step -?\d+, )?{OF_LOGGED_MODEL}([^,]+)")
_FIRST: Final = (
    *("Alias", "Status", "Duration", "Commit", "Trained on", "Evaluated on", "Datasets", "MLflow"),
)
"""The facts that come first, in their order."""

_COMMIT_CHARS: Final = 12
_EARLIER: Final = f"{PROMPT}."
_GZIP: Final = 31
_UNPACKED_BYTES: Final = 1_000_000
_LABELLED_TAGS: Final = frozenset({"Tags", "Glossary terms"})


class _FactField(NamedTuple):
    """A fact: a field of an aspect, or `part` of its record or of each of its entries.

    It is `shown` as text, as links to entities, as a long text below the facts or as JSON.
    """

    shown: str
    label: str
    aspect: str
    field: str
    part: str

    def values(self, aspects: Aspects) -> list[str]:
        """Return the values of the field; of an object the names only, as headers hold secrets."""
        found = value_of(aspects, self.aspect).get(self.field)
        entries = found if isinstance(found, list) else [found]
        if self.part:
            entries = [entry.get(self.part) for entry in entries if isinstance(entry, dict)]
        texts = (
            one for entry in entries for one in (entry if isinstance(entry, dict) else [entry])
        )
        return [scalar(one) for one in texts if one not in (None, "")]


def _shown(aspects: Aspects, form: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the label and the values of each fact that is shown in this form, if it has any."""
    for row in _ROWS:
        if row.shown == form and (values := row.values(aspects)):
            yield row.label, values


_CSV: Final = (files("mlcat_ingest.catalog.web.ui") / "facts.csv").read_text(encoding="utf-8")
_ROWS: Final = tuple(starmap(_FactField, csv.reader(_CSV.splitlines()[1:])))
_COMPOSES: Final = "ServiceComposesApi"

_PARTLY_SHOWN: Final = frozenset(
    {ML_MODEL_TRAINING_DATA, ML_MODEL_EVALUATION_DATA, VERSION_PROPERTIES}
)

_SHOWN_IN_PLACE: Final = frozenset(
    {
        *PROPERTIES.values(),
        *({row.aspect for row in _ROWS} - _PARTLY_SHOWN),
        STATUS,
        TEST_RESULTS,
        SOURCE_CODE,
        INSTITUTIONAL_MEMORY,
        BROWSE_PATHS_V2,
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


_Texts = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The overview of an entity: everything that has no other tab."""

    facts: Sequence[Fact]
    metrics: Sequence[tuple[str, Rounded]]
    curves: Annotated[Mapping[str, Piece], "where MLflow shows more of a metric"]
    tables: Sequence[Listing]
    parameters: _Texts
    custom: Annotated[_Texts, "custom properties"]
    mlflow: Annotated[_Texts, "those by MLflow and its source"]
    bookkeeping: Annotated[_Texts, "those of this package"]
    texts: Annotated[_Texts, "long texts, by their labels"]
    earlier: Annotated[_Texts, "the texts of earlier versions of a prompt"]
    definition: Annotated[str, "of a metadata test or a service"]
    others: Annotated[_Texts, "aspects that have no form here, as JSON"]


def overview(store: Store, urn: str, aspects: Aspects, properties: Mapping[str, Any]) -> Overview:
    """Return the overview of an entity."""
    training = {**value_of(aspects, ML_TRAINING_RUN_PROPERTIES), **properties}
    page = _run_page(store, properties)
    custom = properties.get("customProperties") or {}
    texts = sorted((name, scalar(value)) for name, value in custom.items())
    shown = [one for one in texts if not _is_tabled(*one) and not one[0].startswith(_EARLIER)]
    earlier = [
        (name.removeprefix(_EARLIER), text)
        for name, text in custom.items()
        if name.startswith(_EARLIER)
    ]
    older = {name: scalar(one) for name, one in (training.get("hyperParameters") or {}).items()}
    metrics = training.get("trainingMetrics") or ()
    columns = _objects(value_of(aspects, SCHEMA_METADATA).get("fields"))
    schema = _table(
        "Schema", ({key: in_words(one.get(at)) for key, at in _COLUMN} for one in columns)
    )
    return Overview(
        facts=facts_of(store, urn, aspects, properties),
        metrics=_metrics(store, urn, training),
        curves=dict(_curves(page, metrics)) if page else {},
        tables=[table for table in (*_tables(custom, page), schema) if table.rows],
        parameters=sorted({**older, **dict(_named_values(training, "hyperParams"))}.items()),
        custom=[text for text in shown if not text[0].startswith((*_MLFLOW, OWN_PREFIX))],
        mlflow=[
            (name, in_words(read) if isinstance(read := json_or_none(text), list | dict) else text)
            for name, text in shown
            if name.startswith(_MLFLOW) and name not in _ON_TOP
        ],
        bookkeeping=[text for text in shown if text[0].startswith(OWN_PREFIX)],
        definition=_definition(aspects),
        texts=[(label, text) for label, (text, *_) in _shown(aspects, "long")],
        # Versions are numbers.
        earlier=sorted(earlier, key=lambda one: (len(one[0]), one[0]), reverse=True),
        others=[
            (name, _pretty(stored.value))
            for name, stored in aspects.items()
            if name not in _SHOWN_IN_PLACE and not name.endswith("Key")
        ],
    )


def _definition(aspects: Aspects) -> str:
    """Return the definition of a metadata test or of a service, laid out if it is JSON."""
    text = next((text for _, (text, *_) in _shown(aspects, "json")), "")
    spec = value_of(aspects, SERVICE_DEFINITION).get("rawSpec")
    if isinstance(spec, Mapping) and spec.get("compression") == "GZIP":
        text = _unpacked(text)
    try:
        return _pretty(orjson.loads(text))
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return text  # no JSON, or nested too deeply to be laid out


def _unpacked(text: str) -> str:
    """Return what base64 of gzip holds, up to a limit; another text as it is."""
    try:
        unpacked = zlib.decompressobj(_GZIP).decompress(b64decode(text), _UNPACKED_BYTES)
    except (ValueError, zlib.error):
        return text
    return unpacked.decode("utf-8", "replace") or text


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
    address = properties.get("externalUrl")
    is_mlflow = Identity.of(urn).platform == "mlflow"
    in_mlflow = is_mlflow and web_address(address) is not None
    facts = [
        _line("Status", f"{custom.get(RUN_STATUS, '')} {trial_of(custom)}".strip()),
        _line("Duration", duration(custom.get(RUN_DURATION, ""))),
        _line("Model type", properties.get("type")),
        _line("Data type", properties.get("dataType")),
        _line("Version", _version(properties.get("version"))),
        _line("Category", properties.get("category")),
        *(
            # An instance has no page.
            Fact(label, tuple(chain.from_iterable(map(_outside, map(name_in, values)))))
            for label, values in _shown(aspects, "text")
        ),
        _line("Flavors", custom.get(MODEL_FLAVORS, "").replace(",", ", ")),
        _line("Made with", custom.get(FRAMEWORK_VERSIONS, "").replace(",", ", ")),
        Fact("Model size", tuple(_sizes(custom.get(MODEL_SIZE_BYTES, "")))),
        _line("Created", created_at(properties)),
        _line("Last modified", stamp(properties.get("lastModified"))),
        *_references(store, aspects, _sought(store, urn, custom)),
        Fact("Datasets", tuple(_datasets_without_urn(custom.get(DATASETS)))),
        Fact(
            "MLflow" if is_mlflow else "Source",
            tuple(_outside(address, "Open in MLflow" if in_mlflow else None)),
        ),
        *_code(custom, list(_links(source_code, "sourceCodeUrl"))),
        Fact("Links", tuple(_links(memory, "url", "description"))),
    ]
    order = {label: at for at, label in enumerate(_FIRST)}
    facts.sort(key=lambda fact: order.get(fact.label, len(order)))
    return tuple(fact for fact in facts if fact.pieces)


def _datasets_without_urn(text: str | None) -> Iterator[Piece]:
    """Yield the datasets of a run whose source names no place that the catalog could know."""
    datasets = json_or_none(text)
    for dataset in datasets if isinstance(datasets, list) else ():
        if isinstance(dataset, dict) and dataset.get("name") and not dataset.get("urn"):
            yield Piece(" ".join(filter(None, map(scalar, map(dataset.get, ("name", "digest"))))))


def _sizes(text: str) -> Iterator[Piece]:
    """Yield the size of a model, or of several by their URI."""
    by_uri = json_or_none(text)
    if isinstance(by_uri, dict):
        yield from (Piece(f"{uri} {file_size(scalar(size))}") for uri, size in by_uri.items())
    elif text:
        yield Piece(file_size(text))


def _code(custom: Mapping[str, str], addresses: Sequence[Piece]) -> Iterator[Fact]:
    """Yield the commit of a run, with the address of it if there is one, and other addresses."""
    commit = next((custom[tag] for tag in COMMIT_TAGS if custom.get(tag)), "")
    own = [piece for piece in addresses if commit and commit in piece.text]
    link = own[0].href if own else None
    yield Fact("Commit", (Piece(commit[:_COMMIT_CHARS], link, outside=True),) if commit else ())
    yield Fact("Code", tuple(piece for piece in addresses if piece not in own[:1]))


def _metrics(store: Store, urn: str, properties: Mapping[str, Any]) -> list[tuple[str, Rounded]]:
    """Return the training metrics, by name; online ones are marked as such.

    Those of a version may be the first values, where its run has other ones: both are said.
    """
    (row,) = model_rows(store, [urn])
    found = [
        (f"{name} (online)", rounded(value))
        for name, value in _named_values(properties, "onlineMetrics")
    ]
    for name, text in _named_values(properties, "trainingMetrics"):
        key = f"metrics.{name}"
        found.append((name, row.shown(key) if key in row.first else rounded(text)))
    return sorted(found)


def _is_tabled(name: str, text: str) -> bool:
    read = json_or_none(text) if name in _TABLED else None
    return bool(read) if name == SIGNATURE else bool(_objects(read))


class _RunPage(NamedTuple):
    """The page of a run in MLflow, in parts of its address as they are written there."""

    base: str
    experiment: str
    run: str
    query: str

    def curve(self, metric: str) -> str:
        """Return the address of the curve of a metric.

        Source: `getMetricPageRoute` of the pages of MLflow 3.17.
        """
        named = {
            "runs": [unquote(self.run)],
            "metric": metric,
            "experiments": [unquote(self.experiment)],
            "plot_metric_keys": [metric],
        }
        query = "&".join(
            f"{key}={quote(orjson.dumps(value), safe='')}" for key, value in named.items()
        )
        return f"{self.base}metric?{query}&x_axis=step{self.query and f'&{self.query}'}"

    def model(self, model_id: str) -> str:
        """Return the address of the page of a logged model."""
        page = f"{self.base}experiments/{self.experiment}/models/{quote(model_id, safe='')}"
        return f"{page}{self.query and f'?{self.query}'}"


def _run_page(store: Store, properties: Mapping[str, Any]) -> _RunPage | None:
    """Return the page of a run, or of a version's run; None where MLflow's pages are elsewhere."""
    run = (properties.get("customProperties") or {}).get(RUN_MODEL)
    if run:
        stored = store.get_many([run], {ML_MODEL_PROPERTIES}).get(run, {})
        properties = properties_of(run, stored)
    found = _RUN_PAGE.fullmatch(web_address(properties.get("externalUrl")) or "")
    return _RunPage(*found.groups(default="")) if found else None


def _curves(page: _RunPage, metrics: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Piece]]:
    """Yield where MLflow shows more of each metric: its curve, or the logged model that has it.

    Of a metric of a logged model that the run did not log, or not by that name, MLflow shows an
    empty curve.
    """
    for metric in metrics:
        name = scalar(metric.get("name"))
        model = _OF_MODEL.match(scalar(metric.get("description")))
        href = page.model(model[1]) if model else page.curve(name)
        yield name, Piece("model" if model else "curve", href, outside=True)


def _tables(custom: Mapping[str, str], page: _RunPage | None) -> Iterator[Listing]:
    """Yield what MLflow's properties hold as JSON: signature, logged models and datasets."""
    by_uri = json_or_none(custom.get(SIGNATURE))
    parts = {part: json_or_none(custom.get(key)) for part, key in SIGNATURE_PARTS.items()}
    signatures = {"": parts, **(by_uri if isinstance(by_uri, dict) else {})}
    yield _table(
        "Signature",
        (
            {**_column(column), "Part": label, "Model": uri}
            for uri, signature in signatures.items()
            if isinstance(signature, dict)
            for part, label in _PARTS.items()
            for column in _objects(signature.get(part))
        ),
    )
    made = _objects(json_or_none(custom.get(LOGGED_MODELS)))
    yield _table("Logged models", (_logged_model(one, page) for one in made))
    used = _objects(json_or_none(custom.get(DATASETS)))
    yield _table("Datasets", map(_dataset, used))


def _table(title: str, rows: Iterable[Mapping[str, str | Piece]]) -> Listing:
    """Return a table with the columns in which some row has something."""
    rows = list(rows)
    labels = [label for label in rows[0] if any(row[label] for row in rows)] if rows else []
    cells = [
        [cell if isinstance(cell, Piece) else Piece(cell) for cell in map(row.__getitem__, labels)]
        for row in rows
    ]
    columns = (ListColumn(label, itemgetter(at), "linked") for at, label in enumerate(labels))
    return Listing(cells, tuple(columns), title=title, label=title)


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _column(column: Mapping[str, Any]) -> dict[str, str | Piece]:
    """Return a column or parameter of a signature; those of tensors may have no name.

    Source: `mlflow/types/schema.py` of MLflow 3.17.
    """
    spec = column.get("tensor-spec")
    tensor = spec if isinstance(spec, dict) else {}
    shape = tensor.get("shape", column.get("shape"))
    required = column.get("required")
    return {
        "Name": scalar(column.get("name")) or "(no name)",
        "Part": "",
        "Type": scalar(tensor.get("dtype")) or _column_type(column, _MOST_NESTED),
        "Shape": f"({in_words(shape)})" if isinstance(shape, list) else "",
        "Required": "" if required is None else "yes" if required else "no",
        "Default": in_words(column.get("default")),
    }


def _column_type(column: Mapping[str, Any], depth: int) -> str:
    """Return the type of a column, with those of what it holds."""
    kind, fields = scalar(column.get("type")), column.get("properties")
    held = column.get("items", column.get("values"))
    if depth and isinstance(held, dict):
        return f"{kind} of {_column_type(held, depth - 1)}"
    if depth and isinstance(fields, dict):
        parts = (
            f"{name}: {_column_type(one, depth - 1)}"
            for name, one in fields.items()
            if isinstance(one, dict)
        )
        return f"{kind} ({', '.join(parts)})"
    return kind


def _logged_model(model: Mapping[str, Any], page: _RunPage | None) -> dict[str, str | Piece]:
    key = scalar(model.get("id"))
    href = page.model(key) if page and key else None
    return {
        "Name": Piece(scalar(model.get("name")) or key, href, outside=True),
        **{name.capitalize(): in_words(model.get(name)) for name in _OF_LOGGED_MODELS},
    }


def _dataset(dataset: Mapping[str, Any]) -> dict[str, str | Piece]:
    urn = scalar(dataset.get("urn"))
    return {
        "Name": Piece(scalar(dataset.get("name")), entity_href(urn) if urn else None),
        **{
            name.capitalize().replace("_", " "): in_words(dataset.get(name))
            for name in _OF_DATASETS
        },
    }


def _sought(
    store: Store, urn: str, custom: Mapping[str, str]
) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield the run of a version, the versions of a run, the servers of a tool: label and URNs."""
    if run := custom.get(RUN_MODEL):
        yield "Run", [run]
    elif custom.get(VERSIONS):
        yield "Registered versions", versions_of(store, [urn])
    elif entity_type(urn) == "api":
        yield "Server", referrers(store, urn, edge.c.relationship == _COMPOSES, 0, PAGE_ROWS).urns


def _named_values(properties: Mapping[str, Any], field: str) -> Iterator[tuple[str, str]]:
    for item in properties.get(field) or []:
        yield scalar(item.get("name")), scalar(item.get("value"))


def _line(label: str, text: object) -> Fact:
    return Fact(label, (Piece(text),) if isinstance(text, str) and text else ())


def _version(version: object) -> str:
    return scalar(version.get("versionTag")) if isinstance(version, Mapping) else ""


def _references(
    store: Store, aspects: Aspects, sought: Iterable[tuple[str, Iterable[str]]]
) -> Iterator[Fact]:
    referred: dict[str, dict[str, None]] = {}
    for label, urns in chain(_shown(aspects, "entities"), sought):
        referred.setdefault(label, {}).update(dict.fromkeys(urns))
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
