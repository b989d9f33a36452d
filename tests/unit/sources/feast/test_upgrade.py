"""One registry file that Feast 0.40 made, that 0.67 took over, and that it wrote once more."""

from pathlib import Path

import pytest

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.definitions.tables import FeatureTable
from mlcat_ingest.sources.feast.source import FeastSource
from support.feast import DATA, config, read, registry, tables
from support.merging import RULES, Shelf
from support.reading import records_of

OLD, NEW, AGAIN = (
    DATA / "upgrade" / f"feast-{state}.db" for state in ("0.40", "0.67", "0.67-applied-again")
)


def tables_of(path: Path) -> dict[str, FeatureTable]:
    return tables(read(path.read_bytes()))


def entities_of(path: Path) -> list[Entity]:
    source = FeastSource(config(registry=str(path)))
    return [entity for record in records_of(source) for entity in source.map(record)]


def test_an_upgrade_of_feast_changes_the_on_demand_table_alone() -> None:
    before, after = tables_of(OLD), tables_of(NEW)
    assert before.keys() == after.keys() == {"stats", "at_hour"}
    assert before["stats"] == after["stats"]
    changed = dict(after["at_hour"].properties.items() - before["at_hour"].properties.items())
    assert changed.pop("feast.last_updated_at") > before["at_hour"].properties["feast.created_at"]
    assert changed == {"feast.version": "latest", "feast.version_number": "1"}
    assert before["at_hour"].sources == after["at_hour"].sources


def test_a_registry_stays_the_same_store_through_an_upgrade() -> None:
    keys = [FeastSource(config(registry=str(path))).keys() for path in (OLD, NEW, AGAIN)]
    assert keys[0] == keys[1] == keys[2]


def test_a_file_that_is_written_again_without_a_change_changes_nothing() -> None:
    assert NEW.read_bytes() != AGAIN.read_bytes()
    assert tables_of(NEW) == tables_of(AGAIN)


@pytest.mark.parametrize("path", [OLD, NEW])
def test_the_entity_of_views_without_one_is_shown_nowhere(path: Path) -> None:
    assert b"__dummy" in path.read_bytes()
    shown = [(entity.urn, entity.aspects, entity.notes) for entity in entities_of(path)]
    assert "__dummy" not in str(shown)


def test_a_view_that_changes_its_kind_is_the_same_table_of_the_new_kind() -> None:
    view = {"spec": {"name": "stats", "project": "rides", "features": [{"name": "rate"}]}}
    shelf = Shelf()
    for kind, shown in (
        ("feature_views", "Feature View"),
        ("stream_feature_views", "Stream Feature View"),
        ("on_demand_feature_views", "On Demand Feature View"),
    ):
        table = tables(read(registry(**{kind: [view]})))["stats"]
        assert table.kind == shown
        urn = "urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,rides.stats)"
        shelf.urn = urn
        source = FeastSource(config())
        (entity,) = (one for one in source.map(table) if one.urn == urn)
        shelf.ingest(entity.aspects, RULES)
        assert shelf.aspects["subTypes"] == {"typeNames": [shown]}
