"""Properties that the mapping writes itself are never taken by a tag of the same name."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from mlcat_ingest.sources.mlflow.mapping import map_record
from mlcat_ingest.sources.mlflow.mapping.properties import OWN_KEYS
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedAgent,
    JoinedAsset,
    JoinedDataset,
    JoinedExperiment,
    JoinedLoggedModel,
    JoinedRecord,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedSignature,
    JoinedVersion,
    RefusedRecord,
)
from support.mlflow_records import record_from_json

HERE = Path(__file__).parent
CASES = sorted(path.parent for path in HERE.glob("*/record.json"))
TAG_VALUE = "tag of a user"


def golden(case: Path) -> JoinedRecord:
    return record_from_json(json.loads((case / "record.json").read_text()))


def with_tags(record: JoinedRecord, more: dict[str, str]) -> JoinedRecord:
    """Return the record with further tags; those that it has stay."""
    match record:
        case JoinedRun():
            return replace(record, run=replace(record.run, tags={**more, **record.run.tags}))
        case JoinedVersion():
            version = record.version
            return replace(record, version=replace(version, tags={**more, **version.tags}))
        case JoinedRegisteredModel():
            model = record.model
            return replace(record, model=replace(model, tags={**more, **model.tags}))
        case JoinedExperiment():
            experiment = record.experiment
            return replace(record, experiment=replace(experiment, tags={**more, **experiment.tags}))
        case JoinedSignature() | JoinedDataset() | RefusedRecord():
            return record
        case JoinedAsset():
            asset = record.asset
            return replace(record, asset=replace(asset, tags={**more, **asset.tags}))
        case JoinedLoggedModel() | JoinedAgent():
            external = record.model
            return replace(record, model=replace(external, tags={**more, **external.tags}))


def tags_of(record: JoinedRecord) -> set[str]:
    match record:
        case JoinedRun():
            return {*record.run.tags, *chain.from_iterable(m.tags for m in record.models.values())}
        case JoinedVersion():
            return {*record.version.tags, *(record.model.tags if record.model else ())}
        case JoinedRegisteredModel():
            return {*record.model.tags}
        case JoinedExperiment():
            return {*record.experiment.tags}
        case JoinedSignature() | JoinedDataset() | RefusedRecord():
            return set()
        case JoinedAsset():
            return {*record.asset.tags}
        case JoinedLoggedModel() | JoinedAgent():
            return {*record.model.tags}


def custom_properties(record: JoinedRecord) -> Iterator[dict[str, str]]:
    for entity in map_record(record):
        for aspect in entity.aspects.values():
            if aspect.get("customProperties"):
                yield aspect["customProperties"]


@cache
def written_keys() -> frozenset[str]:
    """Return the keys that the golden records' entities have and no tag of theirs is called."""
    found: set[str] = set()
    for record in map(golden, CASES):
        keys = {key for custom in custom_properties(record) for key in custom}
        found |= {key for key in keys if key.startswith(("mlflow.", "signature."))} - tags_of(
            record
        )
    return frozenset(found)


def test_the_keys_that_the_golden_records_show_are_the_registered_ones() -> None:
    assert written_keys() == OWN_KEYS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_tag_takes_a_key_that_the_mapping_writes(case: Path) -> None:
    named = dict.fromkeys(written_keys(), TAG_VALUE)
    found = list(custom_properties(with_tags(golden(case), named)))
    without = JoinedAsset | JoinedAgent
    assert found or isinstance(golden(case), without), "only skills and agents have no properties"
    for custom in found:
        assert TAG_VALUE not in {custom.get(key) for key in written_keys()}
