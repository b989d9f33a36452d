"""What the index of a store costs, and what it does with names that are hard to keep."""

import tracemalloc

from mlcat_ingest.links.index import FeatureIndex, Features, Ref
from mlcat_ingest.metadata.naming import Naming

FEAST = Naming("feast")


def test_an_index_of_100_000_features_takes_a_few_megabytes() -> None:
    index = FeatureIndex()
    tracemalloc.start()
    try:
        for view in range(1_000):
            names = (f"a_feature_of_the_view_{view}_{n}" for n in range(100))
            index.add_table(FEAST, f"project_{view % 10}", f"a_feature_view_{view}", names)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 20e6  # as the class says; a URN kept for each feature would take more


def test_a_table_that_can_have_no_urn_is_left_out() -> None:
    index = FeatureIndex()
    index.add_table(FEAST, "p", "", ["a"])
    assert not list(index.tables.values())


def test_features_that_two_tables_of_one_name_have_are_those_of_both() -> None:
    index = FeatureIndex()
    index.add_table(FEAST, "p", "t", ["a"])
    index.add_table(FEAST, "p", "t", ["b"])
    features = Features([index])
    assert [features.look_up(Ref("t", name, "p"), FEAST).state for name in "abc"] == [
        "held",
        "held",
        "unknown",
    ]


def test_names_that_a_urn_encodes_are_found_by_name_and_by_urn() -> None:
    index = FeatureIndex()
    index.add_table(FEAST, "a.b", "t, (x)", ["50%"])
    features = Features([index])
    held = features.look_up(Ref("t, (x)", "50%", "a.b"), FEAST)
    assert held.urn == "urn:li:mlFeature:(a%2Eb.t%2C %28x%29,50%25)"
    assert features.look_up_urn(held.urn).state == "held"
    assert features.look_up(Ref("a.b.t, (x)", "50%"), FEAST).urn == held.urn


def test_a_feature_whose_urn_had_to_be_shortened_is_found() -> None:
    index = FeatureIndex()
    index.add_table(FEAST, "p", "t", ["x" * 600])
    held = Features([index]).look_up(Ref("t", "x" * 600, "p"), FEAST)
    assert held.state == "held"
    assert held.urn is not None
    assert len(held.urn) <= 512
