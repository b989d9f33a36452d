"""Histories of a dataset that two recipes, a warehouse's connector and people write.

Not one aspect of theirs changes, and nothing of ours is left on what they describe.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.retract import merge_or_leave, retract_entity, whole_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.sources.mlflow.mapping.datasets import map_dataset
from mlcat_ingest.sources.mlflow.values.joined import JoinedDataset
from mlcat_ingest.sources.mlflow.values.records import DatasetInput
from support.examples import examples
from support.merging import Shelf
from support.mlflow_records import a_scope

URN = "urn:li:dataset:(urn:li:dataPlatform:s3,lake/fraud/train.parquet,PROD)"
PROPERTIES, SCHEMA, STATUS, TAGS = "datasetProperties", "schemaMetadata", "status", "globalTags"
RECIPES = {"prod": Writer("prod"), "dev": Writer("dev")}


def as_logged(recipe: str, at_ms: int) -> Entity:
    """Return the dataset as a run of that time tells of it; every third knows no schema."""
    columns = [{"type": "long", "name": name} for name in ("a", f"b{at_ms % 5}")]
    schema = json.dumps({"mlflow_colspec": columns}) if at_ms % 3 else None
    item = DatasetInput(f"train {recipe}", f"d{at_ms}", "s3", "", schema, '{"num_rows": 7}')
    record = JoinedDataset(a_scope(workspace=recipe), URN, item, f"{recipe}{at_ms}", at_ms)
    return map_dataset(record)[0]


@dataclass
class World:
    """The dataset in a catalog; `theirs` are the aspects of others, `patched` what they added."""

    shelf: Shelf = field(default_factory=lambda: Shelf(URN))
    theirs: dict[str, Any] = field(default_factory=dict)
    patched: dict[str, str] = field(default_factory=dict)

    def upsert(self, name: str, value: Mapping[str, Any]) -> None:
        self.theirs[name] = value
        self.shelf.put(name, value)
        if name == PROPERTIES:
            self.patched = {}

    def others(self, what: str, at: int) -> None:
        match what:
            case "properties":
                self.upsert(PROPERTIES, {"customProperties": {"w": str(at)}, "name": "TRAIN"})
            case "empty properties":
                self.upsert(PROPERTIES, {"customProperties": {}})
            case "schema":
                self.upsert(SCHEMA, {"schemaName": "w", "hash": "", "fields": [{"fieldPath": "w"}]})
            case "the same schema":
                fresh = as_logged("prod", 1 + 3 * at).aspects[SCHEMA]
                self.upsert(SCHEMA, {**fresh, "hash": ""})
            case "status":
                self.upsert(STATUS, {"removed": False})
            case "drop":
                self.others("properties", at)
                self.upsert(STATUS, {"removed": True})
            case "tag":
                self.upsert(TAGS, {"tags": [{"tag": f"urn:li:tag:t{at}"}]})
            case "patch":
                if PROPERTIES not in self.theirs:
                    self.patched["w"] = str(at)
                custom = {**self.shelf.field("customProperties", {}, PROPERTIES), "w": str(at)}
                self.shelf.edit(PROPERTIES, customProperties=custom)
                if PROPERTIES in self.theirs:
                    self.theirs[PROPERTIES] = self.shelf.aspects[PROPERTIES]
            case _:
                assert what == "delete"
                self.shelf.aspects.clear()
                self.theirs, self.patched = {}, {}

    def ours(self, what: str, recipe: str, at: int) -> MergedEntity:
        stored, writer = self.shelf.stored(), RECIPES[recipe]
        if what == "retract":
            return self.shelf.write(retract_entity(whole_entity(URN), stored, writer=writer))
        entity = as_logged(recipe, at)
        if what == "gone":
            entity = Entity(URN, {**whole_entity(URN).aspects, STATUS: {"removed": True}})
        return self.shelf.write(merge_or_leave(entity, stored, MergeRules(writer)))

    def assert_theirs(self) -> None:
        for name, value in self.theirs.items():
            assert self.shelf.aspects.get(name) == value, name
        custom = self.shelf.field("customProperties", {}, PROPERTIES)
        assert self.patched.items() <= custom.items()

    @property
    def is_described(self) -> bool:
        return bool({PROPERTIES, SCHEMA} & self.theirs.keys() or self.patched)

    @property
    def traces(self) -> list[str]:
        custom = self.shelf.field("customProperties", {}, PROPERTIES)
        found = [key for key in custom if key.startswith(("mlcat.", "mlflow."))]
        mark = self.shelf.field("hash", "", SCHEMA)
        return [*found, mark] if mark.startswith("mlcat:") else found


OTHERS = (
    *("properties", "empty properties", "schema", "the same schema", "status", "drop"),
    *("tag", "patch", "delete"),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(OTHERS), st.just(""), st.integers(0, 5)),
        st.tuples(
            st.sampled_from(("run", "run", "gone", "retract")),
            st.sampled_from(tuple(RECIPES)),
            st.integers(0, 20),
        ),
    ),
    max_size=12,
)


@settings(max_examples=examples(1_000))
@given(history=steps)
@example(history=[("run", "prod", 1), ("properties", "", 0), ("run", "prod", 1)])
@example(history=[("run", "prod", 1), ("patch", "", 0), ("run", "dev", 2), ("gone", "prod", 0)])
@example(history=[("run", "prod", 1), ("gone", "prod", 0), ("run", "prod", 2)])
def test_not_one_aspect_of_another_writer_changes(history: Sequence[tuple[str, str, int]]) -> None:
    world = World()
    for what, recipe, at in history:
        if recipe:
            world.ours(what, recipe, at)
        else:
            world.others(what, at)
        world.assert_theirs()
    for recipe in RECIPES:
        world.ours("run", recipe, 100)
    last = [world.ours("run", recipe, 100) for recipe in RECIPES]
    world.assert_theirs()
    assert not any(merged.proposals for merged in last)
    if world.is_described:
        assert not world.traces
        assert {merged.change for merged in last} == {"left_out"}
        return
    assert "mlcat.applied.prod" in world.traces  # its run is the greater one
    assert world.shelf.field("removed", aspect=STATUS) is not True
    for recipe in RECIPES:
        world.ours("retract", recipe, 0)
    world.assert_theirs()
    assert world.shelf.aspects.keys() == world.theirs.keys() | (
        {STATUS} if not world.theirs else set()
    )
