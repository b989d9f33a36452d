"""Entities that a pass did not list: which of them MLflow lacks, and what is asked for it."""

from dataclasses import replace

import pytest

from mlcat_ingest.links.rules import LinkOptions
from mlcat_ingest.sources.base import Missing, Unlisted
from mlcat_ingest.sources.mlflow.select.missing import find_missing
from mlcat_ingest.sources.mlflow.values.joined import WorkspaceScope
from mlcat_ingest.sources.mlflow.values.records import (
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
)
from support.fake_mlflow import FakeReader, FakeStore
from support.mlflow_records import a_scope

RUN = "b0b7db3853394999abf3063ae9b9291c"
SCOPE = a_scope(options={"process_instances": True})
CHURN = Experiment("1", "churn")


def of(urn: str, name: str = "", **custom: str) -> Unlisted:
    return Unlisted(
        urn,
        {"name": name, "customProperties": {f"mlflow.{key}": one for key, one in custom.items()}},
    )


ENTITIES = {
    "experiment": of(SCOPE.experiment_group(CHURN).urn, "churn", experiment_id="1"),
    "run": of(SCOPE.naming.model(RUN).urn, run_id=RUN, experiment_id="1"),
    "process": of(SCOPE.naming.process(RUN), run_id=RUN),
    "registered": of(SCOPE.registered_group("clf").urn, registered_model="clf"),
    "version": of(
        SCOPE.naming.version("clf", "1").urn, registered_model="clf", version="1", run_id=RUN
    ),
    "logged_model": of(SCOPE.naming.model("m-1").urn, model_id="m-1", experiment_id="1"),
}
"""What a pass made of a full store, by what it is."""


def full_store() -> FakeStore:
    return FakeStore(
        [Experiment("0", "Default"), CHURN],
        [Run(RUN, "1"), Run("0" * 32, "1")],
        [RegisteredModel("clf"), RegisteredModel("other")],
        [ModelVersion("clf", "1"), ModelVersion("clf", "2")],
        [LoggedModel(one, "1", one, "READY") for one in ("m-1", "m-2")],
    )


def missing(
    store: FakeStore, *unlisted: Unlisted, scope: WorkspaceScope = SCOPE
) -> dict[str, Missing]:
    reader = FakeReader({"default": store})
    found = list(find_missing(reader, scope, unlisted, tables_listed=True))
    assert len({one.urn for one in found}) == len(found)
    return {one.urn: one for one in found}


def test_nothing_is_missing_that_mlflow_lists() -> None:
    assert missing(full_store(), *ENTITIES.values()) == {}


LOST = {
    "runs": ["run", "process"],
    "registered": ["registered"],
    "versions": ["version"],
    "models": ["logged_model"],
}


@pytest.mark.parametrize(("listing", "kinds"), LOST.items(), ids=LOST)
def test_an_entity_is_missing_whose_object_is_not_listed(listing: str, kinds: list[str]) -> None:
    store = full_store()
    del getattr(store, listing)[0]
    found = missing(store, *ENTITIES.values())
    assert found.keys() == {ENTITIES[kind].urn for kind in kinds}
    for one in found.values():
        assert one.is_gone()
        assert (one.moved_to, one.second_pass, one.switched_off) == (None, False, False)


def test_all_of_a_deleted_experiment_is_missing() -> None:
    store = full_store()
    store.experiments.remove(CHURN)
    found = missing(store, *ENTITIES.values())
    kinds = ("experiment", "run", "process", "logged_model")
    assert found.keys() == {ENTITIES[kind].urn for kind in kinds}
    # A process does not name its experiment, and its run is there yet for those who ask by id.
    assert [found[ENTITIES[kind].urn].is_gone() for kind in kinds] == [True, True, False, True]


@pytest.mark.parametrize("kind", ENTITIES)
def test_an_object_that_only_listings_lack_is_not_gone(kind: str) -> None:
    store = FakeStore(unreadable={("1", ""), (RUN, ""), ("clf", ""), ("clf", "1"), ("m-1", "")})
    found = missing(store, ENTITIES[kind])
    assert not found[ENTITIES[kind].urn].is_gone()


@pytest.mark.parametrize("kind", ["run", "logged_model"])
def test_a_denied_experiment_is_asked_for_once_and_not_for_what_it_contains(kind: str) -> None:
    reader = FakeReader({"default": FakeStore(unreadable={("1", "")})})
    entity = ENTITIES[kind]
    found = list(find_missing(reader, SCOPE, [entity, entity], tables_listed=True))
    reader.calls.clear()
    assert [one.is_gone() for one in found] == [False, False]
    assert reader.calls == [("default", "experiment 1")]


def test_a_version_is_gone_with_its_model_even_if_it_is_denied() -> None:
    denied = ("clf", "1")
    version = ENTITIES["version"]
    for unreadable, gone in (({denied}, True), ({denied, ("clf", "")}, False)):
        found = missing(FakeStore(unreadable=unreadable), version)
        assert found[version.urn].is_gone() is gone


@pytest.mark.parametrize("kind", ["registered", "version"])
@pytest.mark.parametrize(("made_ms", "gone"), [(2, True), (1, False), (None, False)])
def test_an_object_whose_name_was_given_again_is_gone(
    kind: str, made_ms: int | None, *, gone: bool
) -> None:
    store, entity = full_store(), ENTITIES[kind]
    entity = replace(entity, properties={**entity.properties, "created": {"time": 1}})
    store.registered = [RegisteredModel("clf", created_at_ms=made_ms)]
    store.versions = [ModelVersion("clf", "1", created_at_ms=made_ms)]
    found = missing(store, entity)
    assert [one.is_gone() for one in found.values()] == [True] * gone


def test_a_renamed_experiment_moves_to_its_new_group() -> None:
    store, old = full_store(), ENTITIES["experiment"].urn
    renamed = replace(CHURN, name="attrition")
    store.experiments[1] = renamed
    found = missing(store, *ENTITIES.values())
    assert found.keys() == {old}
    assert found[old].moved_to == SCOPE.experiment_group(renamed).urn
    assert found[old].is_gone()


@pytest.mark.parametrize(
    ("stage", "kinds"),
    [("active", set()), ("deleted", {"experiment"})],
    ids=["live", "in the trash"],
)
def test_a_deleted_experiment_leaves_its_group_to_a_live_one_of_its_name(
    stage: str, kinds: set[str]
) -> None:
    namesake = Experiment("2", CHURN.name, lifecycle_stage=stage)
    found = missing(FakeStore([namesake]), ENTITIES["experiment"])
    assert found.keys() == {ENTITIES[kind].urn for kind in kinds}


CREATED = {"created": {"time": 1_760_000_000_000}}


@pytest.mark.parametrize("name", ["attrition", "churn"])
def test_an_experiment_whose_id_was_given_again_is_gone_and_moves_nowhere(name: str) -> None:
    store, old = full_store(), ENTITIES["experiment"]
    store.experiments[1] = Experiment("1", name, created_at_ms=1_760_000_000_001)
    found = missing(store, replace(old, properties={**old.properties, **CREATED}))
    # Under its own name another object stands, which the merge looks at.
    assert found.keys() == ({old.urn} if name != "churn" else set())
    for one in found.values():
        assert (one.moved_to, one.is_gone()) == (None, True)


@pytest.mark.parametrize("created_ms", [1_760_000_000_000, None])
def test_an_experiment_is_the_same_where_no_creation_time_contradicts_its_id(
    created_ms: int | None,
) -> None:
    store, old = full_store(), ENTITIES["experiment"]
    store.experiments[1] = renamed = Experiment("1", "attrition", created_at_ms=created_ms)
    found = missing(store, replace(old, properties={**old.properties, **CREATED}))
    assert found[old.urn].moved_to == SCOPE.experiment_group(renamed).urn


@pytest.mark.parametrize("kind", ENTITIES)
def test_an_entity_that_this_naming_would_not_make_stays(kind: str) -> None:
    theirs = replace(ENTITIES[kind], urn="urn:li:mlModel:(urn:li:dataPlatform:mlflow,theirs,PROD)")
    unknown = replace(theirs, properties={})
    assert missing(FakeStore(), theirs, unknown) == {}


def test_a_process_goes_with_its_option_and_the_run_stays() -> None:
    process = ENTITIES["process"]
    found = missing(full_store(), process, ENTITIES["run"], scope=a_scope())
    assert found.keys() == {process.urn}
    assert found[process.urn].switched_off
    assert found[process.urn].is_gone()


def test_a_process_goes_once_where_its_option_and_its_run_are_gone() -> None:
    process = ENTITIES["process"]
    found = missing(FakeStore([CHURN]), process, scope=a_scope())
    assert [one.switched_off for one in found.values()] == [True]


def test_a_name_that_makes_no_urn_is_no_object_of_mlflow() -> None:
    unnamed = of(ENTITIES["registered"].urn, registered_model="x" * 1_000)
    assert missing(FakeStore(), unnamed) == {}


NEEDED = {
    "experiment": ["experiments"],
    "run": ["experiments", "runs"],
    "process": ["experiments", "runs"],
    "registered": ["experiments", "registered_models"],
    "version": ["experiments", "model_versions"],
    "logged_model": ["experiments", "logged_models 0,1"],
}


@pytest.mark.parametrize(("kind", "listings"), NEEDED.items(), ids=NEEDED)
def test_only_the_listings_of_its_kind_are_asked_for(kind: str, listings: list[str]) -> None:
    reader = FakeReader({"default": full_store()})
    assert not list(find_missing(reader, SCOPE, [ENTITIES[kind]], tables_listed=True))
    assert [name for _, name in reader.calls] == listings


TABLE = Unlisted(
    "urn:li:mlFeatureTable:(urn:li:dataPlatform:mlflow,signature:iris:0)",
    {"customProperties": {"mlflow.signature_of": "iris"}},
)
DATA = Unlisted("urn:li:dataset:(urn:li:dataPlatform:s3,b/x,PROD)", {})
OF_OTHERS = Unlisted("urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,a.b)", {})


@pytest.mark.parametrize(
    ("option", "all_listed", "ways"),
    [
        (LinkOptions(from_signature=True), True, [(True, False)]),
        (LinkOptions(from_signature=True), False, []),
        (LinkOptions(), False, [(False, True)]),
        (None, True, []),
        ("create", True, [(True, False)]),
        ("create", False, []),
        ("link", True, [(False, True)]),
    ],
    ids=str,
)
def test_a_table_or_dataset_goes_in_the_second_pass_or_with_its_option(
    option: LinkOptions | str | None, *, all_listed: bool, ways: list[tuple[bool, bool]]
) -> None:
    of_datasets = isinstance(option, str)
    entity, name = (DATA, "datasets") if of_datasets else (TABLE, "links")
    unlisted, reader = [entity, OF_OTHERS], FakeReader({"default": FakeStore()})
    scope = a_scope(options={name: option})
    found = list(find_missing(reader, scope, unlisted, tables_listed=all_listed))
    assert [(one.second_pass, one.switched_off) for one in found] == ways
    assert all(one.urn == entity.urn and one.is_gone() for one in found)
