"""Which aspects and fields each release of DataHub knows, read from the releases' SDKs.

    .venv/bin/python tests/compat/releases/matrix.py

It makes an environment in `.venvs/` for each SDK, and writes `tests/support/gms/releases.json`, the
tables of `compatibility.md`: of what golden proposals hold, the part that a release drops, and of
the newest SDK the tables of all aspects and of their records, `schema.csv` and `records.csv` in
`src/mlcat_ingest/metadata`.
"""

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from mlcat_ingest.metadata.declaration import RECORDS_FILE, SCHEMA_FILE
from mlcat_ingest.metadata.urn import FABRICS, KINDS, entity_type_of
from support.gms import releases
from support.gms.releases import Release
from support.golden import FILES, proposals_of
from support.venvs import REPOSITORY, make_venv

SERVERS = {
    "0.15.0.2": "v0.15.0",
    **{f"1.{minor}.0": f"v1.{minor}.0" for minor in range(8)},
}
"""SDKs by the release of the server that has their model, but for what `AHEAD` says."""

AHEAD: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "1.0.0": {
        "container": ("mlModel", "mlModelGroup", "mlModelDeployment"),
        "subTypes": (
            *("mlModel", "mlModelGroup", "mlFeatureTable", "mlFeature", "mlPrimaryKey"),
            *("glossaryTerm", "corpuser", "corpGroup"),
        ),
    },
    "1.2.0": {"logicalParent": ("dataset",)},
}
"""Aspects of entity types that an SDK has and the server of its release lacks.

Source: `entity-registry.yml` at the servers' tags up to v1.5.0, and at the commits that
`compatibility.md` names for v1.6.0 and v1.7.0; for what this package declares, there are no
other differences.
"""

NEWEST = (
    *("1.0.0.3", "1.1.0.5", "1.2.0.10", "1.3.1.10", "1.4.0.9", "1.5.0.19", "1.6.0.17", "1.7.0.17"),
)
"""The newest SDK of each minor. The last, that of the development environment, is the measure."""

WRITTEN = (*KINDS, "dataHubIngestionSource", "dataHubExecutionRequest")
"""The entity types that this package writes."""

PAGE = REPOSITORY / "docs" / "reference" / "compatibility.md"
DATA = Path(releases.__file__).with_name(releases.FILE)
COMMAND = ".venv/bin/python tests/compat/releases/matrix.py"
BEGIN, END = f"<!-- written by {COMMAND} -->", "<!-- end of what it writes -->"


@dataclass(frozen=True, slots=True)
class Model:
    """The model of an SDK: the aspects of entity types, the paths of fields, values of enums."""

    sdk: str
    entities: Mapping[str, frozenset[str]]
    fields: frozenset[str]
    values: frozenset[str]
    table: list[list[str]]
    records: list[list[str]]

    @property
    def environments(self) -> frozenset[str]:
        return frozenset(env for env in FABRICS if f"mlModelKey.origin={env}" in self.values)


def model_of(sdk: str) -> Model:
    """Return the model of an SDK, of which an environment is made on first use."""
    python = Path(sys.executable)
    if sdk != version("acryl-datahub"):
        python = make_venv(f"datahub-{sdk}", (f"acryl-datahub=={sdk}",)).python
    program = Path(__file__).with_name("sdk_model.py")
    done = subprocess.run(
        [python, "-W", "ignore", program], check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    entities = {name: frozenset(aspects) for name, aspects in found["entities"].items()}
    fields, values = frozenset(found["fields"]), frozenset(found["values"])
    return Model(found["sdk"], entities, fields, values, found["table"], found["records"])


def release_of(model: Model, newest: Model) -> Release:
    """Return what `model` lacks of that part of the newest model which this package declares."""
    aspects = {
        f"{entity_type}.{aspect}"
        for entity_type in WRITTEN
        for aspect in newest.entities[entity_type]
        if not _has(model, entity_type, aspect)
    }
    ahead = AHEAD.get(model.sdk, {})
    aspects |= {f"{entity_type}.{aspect}" for aspect in ahead for entity_type in ahead[aspect]}
    declared = {one for name in WRITTEN for one in model.entities.get(name, frozenset())}
    lacking = {path for path in newest.fields - model.fields if path.partition(".")[0] in declared}
    outermost = {path for path in lacking if path.rpartition(".")[0] not in lacking}
    return Release(
        model.sdk,
        SERVERS.get(model.sdk),
        model.environments,
        frozenset(aspects),
        frozenset(outermost),
    )


def written_as(found: Iterable[Release]) -> str:
    """Return the text of the file of releases."""
    rows = [
        {
            "sdk": one.sdk,
            "server": one.server,
            "environments": sorted(one.environments),
            "aspects": sorted(one.aspects),
            "fields": sorted(one.fields),
        }
        for one in found
    ]
    return json.dumps(rows, indent=1) + "\n"


def as_csv(rows: Iterable[Iterable[str]]) -> str:
    """Return the text of a table."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


# --- golden proposals -----------------------------------------------------------------------------


def golden_paths(newest: Model) -> Iterator[tuple[str, str]]:
    """Yield the entity type and the path of each aspect, field and enum value in golden files."""
    for file in FILES:
        for urn, aspect, value in proposals_of(file):
            entity_type = entity_type_of(urn)
            yield entity_type, aspect
            yield from ((entity_type, path) for path in _paths(value, aspect, newest))


def _paths(value: Any, place: str, newest: Model) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            below = f"{place}.{key}"
            if below not in newest.fields and f"{place}.*" in newest.fields:
                below = f"{place}.*"
            yield below
            yield from _paths(item, below, newest)
    elif isinstance(value, list):
        for item in value:
            yield from _paths(item, place, newest)
    elif f"{place}={value}" in newest.values:
        yield f"{place}={value}"


def unknown_to(model: Model, paths: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return those of `paths` that a model does not know; of an unknown aspect, it alone."""
    known = model.fields | model.values
    return {
        (entity_type, path)
        for entity_type, path in paths
        if (
            path not in known
            if "." in path and _has(model, entity_type, path.partition(".")[0])
            else "." not in path and not _has(model, entity_type, path)
        )
    }


def _has(model: Model, entity_type: str, aspect: str) -> bool:
    return aspect in model.entities.get(entity_type, frozenset())


# --- the page -------------------------------------------------------------------------------------


def tables(found: Iterable[Release], newest: Model) -> str:
    """Return the tables of the page."""
    paths = {one for one in golden_paths(newest) if not one[1].endswith(".*")}
    rows = {row_name(*one) for one in paths if "=" not in one[1]}
    servers = [one for one in found if one.server is not None]
    cells = {
        row: [_mark(dropped=row_is_dropped(one, row)) for one in servers]
        for row in sorted(rows, key=_place)
    }
    dropped = {row: marks for row, marks in cells.items() if "dropped" in marks}
    environments = {
        f"entities in `{env}`": [_mark(dropped=env not in one.environments) for one in servers]
        for env in sorted(FABRICS)
        if any(env not in one.environments for one in servers)
    }
    head = [str(one.server).removesuffix(".0") for one in servers]
    return "\n".join(
        [
            *("### Dropped by a release", ""),
            *_table(head, {**_quoted(dropped), **environments}),
            *("", "### Everything in the golden proposals", ""),
            *_table(head, _quoted(cells)),
            *("", "### The SDKs", ""),
            *(f"- SDK {one.sdk}: {_sdk_words(one, rows)}" for one in found if not one.server),
        ]
    )


def row_name(entity_type: str, path: str) -> str:
    """Return the name of a row: `mlModel: ownership`, and for a field `ownership.owners`."""
    return path if "." in path else f"{entity_type}: {path}"


def _place(row: str) -> tuple[str, str]:
    """Return what puts an aspect's fields behind the entity types that have it."""
    entity_type, _, aspect = row.rpartition(": ")
    return aspect, entity_type


def row_is_dropped(release: Release, row: str) -> bool:
    """Return whether a release lacks the aspect, or the field, of a row."""
    if ": " in row:
        return row.replace(": ", ".") in release.aspects
    return any(f"{row}.".startswith(f"{field}.") for field in release.fields)


def _mark(*, dropped: bool) -> str:
    return "dropped" if dropped else "known"


def _quoted(cells: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {f"`{row}`": marks for row, marks in cells.items()}


def _table(head: list[str], cells: Mapping[str, list[str]]) -> Iterator[str]:
    yield f"| | {' | '.join(head)} |"
    yield "|---" * (len(head) + 1) + "|"
    for row, marks in cells.items():
        yield f"| {row} | {' | '.join(marks)} |"


def _sdk_words(release: Release, rows: Iterable[str]) -> str:
    lacking = [f"`{row}`" for row in sorted(rows) if row_is_dropped(release, row)]
    return f"lacks {', '.join(lacking)}" if lacking else "knows all of it"


def page_with(text: str, page: str) -> str:
    """Return the page with other tables between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def main() -> None:
    """Write the file and the page."""
    sdks = [*SERVERS, *NEWEST]
    models = []
    for number, sdk in enumerate(sdks, 1):
        print(f"{number} of {len(sdks)}: acryl-datahub {sdk}", flush=True)
        models.append(model_of(sdk))
    found = sorted((release_of(one, models[-1]) for one in models), key=_order)
    DATA.write_text(written_as(found), encoding="utf-8")
    SCHEMA_FILE.write_text(as_csv(models[-1].table), encoding="utf-8")
    RECORDS_FILE.write_text(as_csv(models[-1].records), encoding="utf-8")
    page = page_with(tables(found, models[-1]), PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(page, encoding="utf-8")
    for path in (DATA, SCHEMA_FILE, RECORDS_FILE, PAGE):
        print(f"{path.relative_to(REPOSITORY)} is written")


def _order(release: Release) -> tuple[int, ...]:
    return tuple(int(part) for part in release.sdk.partition("rc")[0].split("."))


if __name__ == "__main__":
    main()
