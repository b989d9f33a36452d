"""What each rule takes as evidence, and which feature a reference means."""

import json
from collections.abc import Callable, Mapping
from itertools import starmap
from typing import Any

import pytest

from mlcat_ingest.links.index import FeatureIndex, FeatureRef, Features, FeatureSet
from mlcat_ingest.links.rules import (
    Evidence,
    FeastTags,
    LinkOptions,
    Links,
    UsedDataset,
    resolve,
    verify,
)
from mlcat_ingest.metadata.naming import Naming

FEAST = Naming("feast")
LAKE = "urn:li:dataset:(urn:li:dataPlatform:s3,lake/drivers,PROD)"


def urn(table: str, feature: str) -> str:
    return f"urn:li:mlFeature:({table},{feature})"


def index(
    tables: Mapping[tuple[str, str], tuple[str, ...]], *, naming: Naming = FEAST, **more: Any
) -> FeatureIndex:
    found = FeatureIndex()
    for (namespace, table), features in tables.items():
        found.add_table(naming, namespace, table, features, **more)
    return found


RIDES = index({("rides", "drivers"): ("rate", "trips"), ("rides", "cars"): ("age", "rate")})
OTHER = index({("food", "drivers"): ("rate", "tips")})


def links(
    evidence: Evidence,
    *indexes: FeatureIndex,
    exists: Callable[[str], bool | None] = lambda _: True,
    **options: Any,
) -> Links:
    found = LinkOptions(**options)
    candidate, _ = resolve(evidence, Features(indexes or (RIDES, OTHER)), found)
    return verify(candidate, exists, dangling=found.dangling)


def feast(*refs: str, project: str | None = "rides", **more: Any) -> Evidence:
    return Evidence(feast=FeastTags(project=project, refs=refs, **more))


def declared(text: str) -> Evidence:
    return Evidence(declared=text)


def test_what_people_declare_goes_before_everything_else() -> None:
    evidence = Evidence(
        declared="rides.drivers:rate",
        feature_specs=("input_columns: [{age: {source: feature_store, table_name: rides.cars}}]",),
        feast=FeastTags("rides", ("cars:age",)),
        columns=frozenset({"age"}),
    )
    assert links(evidence) == Links("mlcat.features", (urn("rides.drivers", "rate"),))


@pytest.mark.parametrize(
    "text",
    [
        "rides.drivers:rate,rides.cars:age",
        " rides.cars:age ,\n rides.drivers:rate,,rides.cars:age",
        "urn:li:mlFeature:(rides.cars,age),urn:li:mlFeature:(rides.drivers,rate)",
        "cars:age,rides.drivers:rate",
    ],
)
def test_declared_features_are_names_or_urns_in_any_order(text: str) -> None:
    assert links(declared(text)).urns == (urn("rides.cars", "age"), urn("rides.drivers", "rate"))


def test_a_declared_name_without_its_namespace_is_ambiguous_where_two_have_it() -> None:
    assert links(declared("drivers:rate,drivers:tips")) == Links(
        "mlcat.features", (urn("food.drivers", "tips"),), ambiguous=("drivers:rate",)
    )


def test_what_is_no_reference_is_unknown_and_not_lost() -> None:
    found = links(declared("rides.drivers,urn:li:mlModel:(a,b),rides.drivers:rate"))
    assert found.unknown == ("rides.drivers", "urn:li:mlModel:(a,b)")
    assert found.urns == (urn("rides.drivers", "rate"),)


def test_a_feature_that_its_store_lacks_is_unknown_whatever_the_catalog_holds() -> None:
    assert links(feast("drivers:gone")) == Links(
        "feast.feature_refs", unknown=("rides.drivers:gone",)
    )


def test_dangling_links_only_where_asked_for() -> None:
    found = links(feast("drivers:gone", "drivers:rate"), dangling=True)
    assert found.urns == (urn("rides.drivers", "gone"), urn("rides.drivers", "rate"))
    assert found.unknown == ()


def test_a_table_that_no_store_of_the_recipe_has_is_looked_up_in_the_catalog() -> None:
    evidence = feast("wheels:size", "wheels:colour", project="cars")
    there = {"instance": "eu", "namespace_prefix": "shop"}
    found = links(evidence, exists=lambda one: one.endswith("size)"), **there)
    assert found.urns == (urn("eu.shop.cars.wheels", "size"),)
    assert found.unknown == ("cars.wheels:colour",)


def test_a_table_that_its_store_could_not_be_read_as_a_whole_is_looked_up_too() -> None:
    partly = index({("rides", "drivers"): ("rate",)}, complete=False)
    assert links(feast("drivers:late"), partly).urns == (urn("rides.drivers", "late"),)


def test_what_cannot_be_looked_up_is_not_complete_and_says_nothing_is_missing() -> None:
    found = links(feast("wheels:size", project="cars"), exists=lambda _: None)
    assert found == Links("feast.feature_refs", complete=False)


def test_a_feature_that_its_store_has_and_the_catalog_refused_is_not_linked() -> None:
    assert links(feast("drivers:rate"), exists=lambda _: False).urns == ()


@pytest.mark.parametrize("version", ["@v2", "@V12", "@latest", "@"])
def test_the_version_of_a_view_is_left_out(version: str) -> None:
    assert links(feast(f"drivers{version}:rate")).urns == (urn("rides.drivers", "rate"),)


def test_columns_of_a_version_narrow_too() -> None:
    evidence = Evidence(
        feast=FeastTags("rides", ("drivers@v2:rate", "cars:age")),
        columns=frozenset({"drivers@v2__rate"}),
    )
    assert links(evidence).urns == (urn("rides.drivers", "rate"),)


def test_keys_and_labels_are_no_inputs() -> None:
    keyed = index({("rides", "drivers"): ("rate", "driver_id")}, keys=["driver_id"])
    keyed.add_table(FEAST, "rides", "ratings", ["stars"], labels=True)
    found = links(feast("drivers:driver_id", "ratings:stars", "drivers:rate"), keyed)
    assert found == Links("feast.feature_refs", (urn("rides.drivers", "rate"),))


def test_a_key_among_the_inputs_does_not_narrow_to_nothing() -> None:
    keyed = index({("rides", "drivers"): ("rate", "driver_id")}, keys=["driver_id"])
    evidence = Evidence(
        feast=FeastTags("rides", ("drivers:driver_id", "drivers:rate")),
        columns=frozenset({"driver_id", "renamed"}),
    )
    assert links(evidence, keyed).urns == (urn("rides.drivers", "rate"),)


def test_the_signature_never_adds_and_keeps_all_where_nothing_matches() -> None:
    evidence = feast("drivers:rate", "drivers:trips")
    whole = links(evidence)
    narrowed = links(Evidence(feast=evidence.feast, columns=frozenset({"rate", "age"})))
    renamed = links(Evidence(feast=evidence.feast, columns=frozenset({"x0", "x1"})))
    assert narrowed.urns == (urn("rides.drivers", "rate"),)
    assert renamed == whole


def test_without_a_project_the_only_one_is_meant() -> None:
    assert links(feast("drivers:rate", project=None), RIDES).urns == (urn("rides.drivers", "rate"),)


def test_without_a_project_nothing_is_linked_where_there_are_several() -> None:
    assert links(feast("drivers:rate", project=None)) == Links(
        "feast.feature_refs", ambiguous=("drivers:rate",)
    )
    assert links(feast("drivers:rate", project=None), project="food").urns == (
        urn("food.drivers", "rate"),
    )


def test_two_stores_with_one_project_are_ambiguous_where_both_have_the_feature() -> None:
    tables = {("rides", "drivers"): ("rate", "only_eu")}
    eu = index(tables, naming=Naming("feast", instance="eu"))
    us = index({("rides", "drivers"): ("rate",)}, naming=Naming("feast", instance="us"))
    found = links(feast("drivers:rate", "drivers:only_eu"), eu, us)
    assert found.urns == (urn("eu.rides.drivers", "only_eu"),)
    assert found.ambiguous == ("rides.drivers:rate",)


def with_service(*features: tuple[str, str], **aliases: str) -> FeatureIndex:
    found = index({("rides", "drivers"): ("rate", "trips"), ("rides", "cars"): ("age",)})
    found.add_set(FeatureSet("rides", "svc", tuple(starmap(FeatureRef, features)), aliases))
    return found


def test_an_alias_that_is_the_name_of_another_view_means_what_its_service_says() -> None:
    store = with_service(("cars", "age"), drivers="cars")
    store.add_table(FEAST, "rides", "drivers", ["age"])
    found = links(feast("drivers:age", "drivers:rate", service="svc"), store)
    assert found == Links(
        "feast.feature_refs", (urn("rides.cars", "age"), urn("rides.drivers", "rate"))
    )
    assert links(feast("drivers:age"), store).urns == (urn("rides.drivers", "age"),)


def test_two_aliases_of_one_view_mean_that_view() -> None:
    store = with_service(("drivers", "rate"), now="drivers", before="drivers")
    for service in ("svc", ""):
        found = links(feast("now:rate", "before:trips", service=service), store)
        assert found.urns == (urn("rides.drivers", "rate"), urn("rides.drivers", "trips"))


def test_two_views_whose_aliases_are_the_name_of_the_other_are_not_confused() -> None:
    store = with_service(("drivers", "age"), ("cars", "rate"), drivers="cars", cars="drivers")
    store.add_table(FEAST, "rides", "drivers", ["age"])
    store.add_table(FEAST, "rides", "cars", ["rate"])
    found = links(feast("cars:age", "drivers:rate", service="svc"), store)
    assert found.urns == (urn("rides.cars", "rate"), urn("rides.drivers", "age"))


def test_a_service_without_references_is_expanded_and_flagged() -> None:
    store = with_service(("drivers", "rate"), ("cars", "age"))
    found = links(feast(service="svc"), store)
    assert found.rule == "feast.feature_service"
    assert found.urns == (urn("rides.cars", "age"), urn("rides.drivers", "rate"))
    assert found.approximate


@pytest.mark.parametrize("asked", [(), (("drivers", "rate"),)])
def test_a_service_is_not_expanded_for_cut_references_that_it_does_not_have_or_has_more_of(
    asked: tuple[tuple[str, str], ...],
) -> None:
    store = with_service(*asked, ("drivers", "trips"), ("cars", "age"))
    found = links(feast("drivers:rate", is_cut=True, count=2, service="svc"), store)
    assert (found.rule, found.urns) == ("feast.feature_refs", (urn("rides.drivers", "rate"),))
    assert found.approximate == "its references are truncated: 1 of 2 are known"


def test_a_service_of_a_store_that_was_not_read_takes_nothing_back() -> None:
    assert links(feast(service="svc"), OTHER).complete is False
    assert links(feast(service="svc"), RIDES) == Links(
        "feast.feature_service", unknown=("rides.svc",)
    )


def test_the_file_of_a_model_holds_where_the_references_are_cut() -> None:
    text = json.dumps(["drivers:rate", "cars:age"])
    evidence = Evidence(
        feast=FeastTags("rides", ("drivers:rate",), is_cut=True, count=2), features_file=text
    )
    assert links(evidence) == Links(
        "feast_features.json", (urn("rides.cars", "age"), urn("rides.drivers", "rate"))
    )


def test_the_file_of_a_model_holds_where_the_run_asked_for_features_online_later() -> None:
    evidence = Evidence(
        feast=FeastTags("rides", ("cars:age",), count=1, retrieval="online"),
        features_file=json.dumps(["drivers:rate", "drivers:trips"]),
    )
    assert links(evidence).urns == (urn("rides.drivers", "rate"), urn("rides.drivers", "trips"))


SPEC = """
input_columns:
- driver_id: {source: training_data, include: false}
- label: {source: training_data}
- rate: {source: feature_store, table_name: rides.drivers, feature_name: rate}
- driver_age: {source: feature_store, table_name: rides.cars, feature_name: age, include: true}
- trips: {source: feature_store, table_name: rides.drivers, feature_name: trips, include: false}
- doubled: {source: on_demand_feature, udf_name: rides.double}
"""


def test_the_spec_of_a_model_names_its_inputs() -> None:
    evidence = Evidence(feature_specs=(SPEC,), feast=FeastTags("rides", ("drivers:trips",)))
    assert links(evidence) == Links(
        "feature_spec.yaml", (urn("rides.cars", "age"), urn("rides.drivers", "rate"))
    )


@pytest.mark.parametrize(
    "text", ["!!python/object/apply:os.abort []", "[", "input_columns: 3", "a: &a [*a]", "\x00"]
)
def test_a_spec_that_is_none_is_reported_and_the_next_rule_asked(text: str) -> None:
    evidence = Evidence(feature_specs=(text,), feast=FeastTags("rides", ("drivers:rate",)))
    candidate, problems = resolve(evidence, Features([RIDES]), LinkOptions())
    assert candidate.rule == "feast.feature_refs"
    assert [one.partition(":")[0] for one in problems] == ["feature_spec.yaml"]


@pytest.mark.parametrize("text", ["{", '{"a": 1}', "[1]", "[" * 100_000])
def test_a_file_of_references_that_is_none_is_reported(text: str) -> None:
    _, problems = resolve(Evidence(features_file=text), Features([RIDES]), LinkOptions())
    assert [one.partition(":")[0] for one in problems] == ["feast_features.json"]


def test_a_dataset_of_a_table_gives_the_features_that_are_its_columns_if_asked_for() -> None:
    store = index({("rides", "drivers"): ("rate", "trips")}, sources=[LAKE])
    evidence = Evidence(
        datasets=(UsedDataset(LAKE, frozenset({"rate", "trips", "label"})),),
        columns=frozenset({"rate", "label"}),
    )
    found = links(evidence, store, dataset_match=True)
    assert (found.rule, found.urns) == ("dataset_match", (urn("rides.drivers", "rate"),))
    assert links(evidence, store) == Links()


def test_a_dataset_of_two_tables_with_one_column_is_ambiguous() -> None:
    store = index({("rides", "a"): ("rate",), ("rides", "b"): ("rate", "age")}, sources=[LAKE])
    evidence = Evidence(datasets=(UsedDataset(LAKE, frozenset({"rate", "age"})),))
    found = links(evidence, store, dataset_match=True)
    assert (found.urns, found.ambiguous) == ((urn("rides.b", "age"),), ("rate",))


def test_names_of_inputs_are_matched_if_asked_for_and_only_where_one_table_has_them() -> None:
    evidence = Evidence(columns=frozenset({"rate", "age", "drivers__trips", "other"}))
    found = links(evidence, signature_names=True)
    assert found.rule == "signature_names"
    assert found.urns == (urn("rides.cars", "age"), urn("rides.drivers", "trips"))
    assert found.ambiguous == ("rate",)
    assert links(evidence) == Links()
