"""Makes `before_versions.tar.xz` with an older version of this package, whose catalog it keeps.

Run it by the Python of an environment that has that version and its extra `dev`::

    git worktree add /tmp/older 66114f6 && cd /tmp/older && uv sync --locked --extra dev
    .venv/bin/python <this file> before_versions.tar.xz

It trains with MLflow, ingests three recipes, edits the catalog as people do, through the DataHub
SDK, and ingests again. The archive holds the folder: MLflow's store, the recipes, the definitions,
the catalog, the state, and `edits.json`: by URN and aspect, the entries that people added.
"""

import json
import os
import re
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import datahub.metadata.schema_classes as models
from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.ingestion.graph.client import DatahubClientConfig, DataHubGraph
from mlflow import MlflowClient
from mlflow.entities import Metric, Param

START_MS = 1_700_000_000_000

RECIPE = """name: {name}
sources:
{definitions}  - type: mlflow
    config: {{tracking_uri: "sqlite:///mlflow.db"{options}}}
enrich: [{{match: {{entity: mlModel}}, add_tags: [pii]}}]
sink: {{type: embedded, config: {{db: catalog.db}}}}
report_to_catalog: false
"""

DEFINITIONS = """version: 1
platform: custom
namespace: rides
tables:
  - name: drivers
    owners: [ann]
    keys: [{name: driver, column: driver_id, type: ORDINAL}]
    features: [{name: rate, type: CONTINUOUS}, {name: "a,b (c) 100%", type: COUNT}]
"""

RECIPES = {"night": "", "eu": ", instance: eu", "shared": ", env: STG, compat: datahub"}


def train(client: Any) -> dict[str, str]:
    """Fill MLflow's store; return the ids of its runs by name."""
    runs: dict[str, str] = {}
    for experiment in ("churn", "a,b (c) 100%", "模型" * 60, "registered:taken"):
        number = client.create_experiment(experiment, "mlartifacts")
        for name in ("a", "b", "c", "deleted") if experiment == "churn" else (experiment[:8],):
            tags = {"mlflow.user": "ada", "mlcat.features": "rides.drivers:rate", "team": "growth"}
            run = client.create_run(number, START_MS, tags, name).info.run_id
            client.log_batch(run, [Metric("auc", 0.9, START_MS, 0)], [Param("depth", "3")])
            client.set_terminated(run, "FINISHED", START_MS + 900)
            runs[name] = run
    client.delete_run(runs["deleted"])
    return runs


def register(client: Any, runs: Mapping[str, str]) -> None:
    """Register one model for each relation between versions and runs that there is."""
    of_models: dict[str, list[str | None]] = {
        "scorer": [runs["a"], runs["b"], None],
        "twice": [runs["c"], runs["c"]],
        "a,b (c) 100%": [runs["a,b (c) "]],
    }
    for name, of_versions in of_models.items():
        client.create_registered_model(name, {"team": "growth"}, "who leaves")
        for run in of_versions:
            client.create_model_version(name, "s3://bucket/model", run, {"v": "1"})
        client.set_registered_model_alias(name, "champion", "1")
    client.transition_model_version_stage("scorer", "2", "Production")


def ingest() -> None:
    """Run the recipes in the working directory."""
    for name in RECIPES:
        command = [sys.executable, "-m", "mlcat_ingest", f"{name}.yml", "-q"]
        subprocess.run(command, check=True)


@contextmanager
def catalog() -> Iterator[DataHubGraph]:
    """Give a client of the catalog in the working directory."""
    command = [sys.executable, "-m", "mlcat_ingest", "catalog", "serve", "--db", "catalog.db"]
    with subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        place = re.search(r"http://\S+", server.stdout.readline())
        assert place is not None
        with DataHubGraph(DatahubClientConfig(server=place[0])) as graph:
            yield graph
        server.terminate()


def edit(graph: DataHubGraph, urn: str) -> dict[str, Any]:
    """Add entries to each list and map of an entity that people edit; return them by aspect."""
    kind = urn.split(":")[2]
    owner = "urn:li:corpuser:grace"
    entries: dict[str, dict[str, Any]] = {
        "globalTags": {"tags": [{"tag": "urn:li:tag:reviewed"}]},
        "ownership": {"owners": [{"owner": owner, "type": "TECHNICAL_OWNER"}]},
        f"{kind}Properties": {"customProperties": {"ticket": "ML-42"}},
    }
    if kind == "mlModel":
        theirs = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,theirs,PROD)"
        entries["mlModelProperties"]["groups"] = [theirs]
    alone = {
        "domains": models.DomainsClass(["urn:li:domain:growth"]),
        "institutionalMemory": models.InstitutionalMemoryClass(
            [
                models.InstitutionalMemoryMetadataClass(
                    "https://wiki.example.com/churn",
                    "why it is so",
                    models.AuditStampClass(START_MS, owner),
                )
            ]
        ),
        f"editable{kind[0].upper()}{kind[1:]}Properties": {
            "mlModel": models.EditableMLModelPropertiesClass,
            "mlModelGroup": models.EditableMLModelGroupPropertiesClass,
            "mlFeatureTable": models.EditableMLFeatureTablePropertiesClass,
            "mlFeature": models.EditableMLFeaturePropertiesClass,
            "mlPrimaryKey": models.EditableMLPrimaryKeyPropertiesClass,
        }[kind](description="in our words"),
    }
    for name, added in entries.items():
        add(graph, urn, name, added)
    for value in alone.values():
        graph.emit(MetadataChangeProposalWrapper(entityUrn=urn, aspect=value))
    return entries | {value.get_aspect_name(): value.to_obj() for value in alone.values()}


def add(graph: DataHubGraph, urn: str, name: str, added: Mapping[str, Any]) -> None:
    """Write an aspect with entries beside those that it has."""
    kind: type[Any] = models.ASPECT_NAME_MAP[name]
    stored = graph.get_aspect(urn, kind)
    value = {} if stored is None else stored.to_obj()
    join: Callable[[Any, Any], Any]
    for field, more in added.items():
        join = (lambda a, b: {**a, **b}) if isinstance(more, dict) else (lambda a, b: [*a, *b])
        value[field] = join(value.get(field) or type(more)(), more)
    graph.emit(MetadataChangeProposalWrapper(entityUrn=urn, aspect=kind.from_obj(value)))


def urns() -> list[str]:
    """Return the entities that the recipes made, by the catalog's own file."""
    with closing(sqlite3.connect("catalog.db")) as database:
        found = database.execute("SELECT urn FROM entity WHERE urn LIKE 'urn:li:ml%' ORDER BY urn")
        return [urn for (urn,) in found]


def main(folder: Path) -> None:
    """Make everything in `folder`, the working directory."""
    client = MlflowClient("sqlite:///mlflow.db", "sqlite:///mlflow.db")
    register(client, train(client))
    (folder / "features.yml").write_text(DEFINITIONS)
    definitions = "  - {type: definitions, config: {path: features.yml}}\n"
    for name, options in RECIPES.items():
        first = definitions if name == "night" else ""
        recipe = RECIPE.format(name=name, options=options, definitions=first)
        (folder / f"{name}.yml").write_text(recipe)
    ingest()
    with catalog() as graph:
        edits = {urn: edit(graph, urn) for urn in urns()}
    (folder / "edits.json").write_text(json.dumps(edits, indent=1, sort_keys=True))
    ingest()
    for database in (folder / "catalog.db", folder / ".mlcat" / "state.db"):
        with closing(sqlite3.connect(database)) as opened:
            opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            opened.execute("VACUUM")


if __name__ == "__main__":
    archive = Path(sys.argv[1]).absolute()
    with TemporaryDirectory() as made:
        os.chdir(made)
        main(Path(made))
        kept = ["mlflow.db", "catalog.db", ".mlcat/state.db", "edits.json", "features.yml"]
        with tarfile.open(archive, "w:xz") as tar:
            for name in [*kept, *(f"{recipe}.yml" for recipe in RECIPES)]:
                tar.add(name)
