"""What a Feast registry becomes has the URNs that DataHub's own feast source gives it."""

from datahub.emitter.mce_builder import (
    make_ml_feature_table_urn,
    make_ml_feature_urn,
    make_ml_primary_key_urn,
)

from mlcat_ingest.sources.definitions.tables import FeatureTable
from support.feast import REGISTRY, entities_of_registry, read, tables


def theirs(table: FeatureTable) -> set[str]:
    name = f"{table.namespace}.{table.name}"
    return {
        make_ml_feature_table_urn("feast", name),
        *(make_ml_feature_urn(name, one.name) for one in table.features),
        *(make_ml_primary_key_urn(name, one.name) for one in table.keys),
    }


def test_tables_features_and_keys_are_called_as_datahub_calls_them() -> None:
    found = tables(read(REGISTRY.read_bytes())).values()
    assert {one.urn for one in entities_of_registry()} == set().union(*map(theirs, found))
