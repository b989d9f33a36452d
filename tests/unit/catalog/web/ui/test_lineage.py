"""The tab of lineage: trees in both directions, bounded, each entity unfolded once."""

import re
from itertools import pairwise

import pytest

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.lineage import COUNTED, EACH, HOPS, MOST, _Node, lineage_view
from mlcat_ingest.catalog.web.ui.text import visible
from support.catalog_store import feature, group, model, put, statements, table
from support.names import HOSTILE
from support.pages import at, page

ORDERS = "urn:li:dataset:(urn:li:dataPlatform:s3,lake/orders,PROD)"
TRAINING = "urn:li:dataset:(urn:li:dataPlatform:s3,lake/training,PROD)"
INSTANCE = "urn:li:dataProcessInstance:night"


@pytest.fixture
def churn(store: Store) -> Store:
    put(store, feature("t", "f"), mlFeatureProperties={"sources": [ORDERS]})
    put(store, table("t"), mlFeatureTableProperties={"mlFeatures": [feature("t", "f")]})
    put(
        store,
        model("run"),
        mlModelProperties={
            "name": "hare",
            "mlFeatures": [feature("t", "f")],
            "groups": [group("churn")],
            "trainingJobs": [INSTANCE],
            "customProperties": {"mlflow.run_id": "run", "mlflow.versions": '["churn:1"]'},
        },
        mlModelTrainingData={"trainingData": [{"dataset": TRAINING}]},
    )
    custom = {"mlflow.run_id": "run", "mlflow.run_model": model("run")}
    put(
        store,
        model("churn_1"),
        mlModelProperties={"groups": [group("registered:churn")], "customProperties": custom},
        subTypes={"typeNames": ["Model Version"]},
    )
    put(store, INSTANCE, dataProcessInstanceInput={"inputs": [TRAINING]})
    return store


def drawn(store: Store, urn: str, *, upstream: bool) -> list[str]:
    """Return the lines of a tree: the URN after a dot for each hop before it."""

    def lines(nodes: tuple[_Node, ...], depth: int) -> list[str]:
        return [
            line
            for node in nodes
            for line in ("." * depth + node.row.urn, *lines(node.nodes, depth + 1))
        ]

    return lines(lineage_view(store, urn).trees[0 if upstream else 1].root.nodes, 0)


def boxes(store: Store, urn: str) -> list[tuple[str, int, int]]:
    """Return the text of each box of the picture, and its corner."""
    picture = lineage_view(store, urn).picture
    assert picture is not None
    return [
        (node.row.name if node.row else node.fold.text if node.fold else "", node.x, node.y)
        for node in picture.nodes
    ]


def lists(store: Store, urn: str) -> str:
    """Return the text of the page behind the picture."""
    _, _, text = page(store, at(urn, "?tab=lineage")).text.partition("Upstream: what it comes from")
    return text


def test_a_run_comes_from_data_features_and_jobs(churn: Store) -> None:
    assert drawn(churn, model("run"), upstream=True) == [
        feature("t", "f"),
        f".{ORDERS}",
        INSTANCE,
        TRAINING,
    ]


def test_what_comes_from_a_run_are_its_versions_and_groups(churn: Store) -> None:
    assert drawn(churn, model("run"), upstream=False) == [
        group("churn"),
        model("churn_1"),
        f".{group('registered:churn')}",
    ]


def test_runs_with_the_same_words_in_their_names_have_their_own_versions(store: Store) -> None:
    for run in ("Run1", "run1"):
        put(store, model(run), mlModelProperties={"customProperties": {"mlflow.versions": "[]"}})
    custom = {"mlflow.run_model": model("run1")}
    put(store, model("churn_1"), mlModelProperties={"customProperties": custom})
    assert drawn(store, model("run1"), upstream=False) == [model("churn_1")]
    assert drawn(store, model("Run1"), upstream=False) == []
    assert at(model("churn_1")) in page(store, at(model("run1"))).links
    assert at(model("churn_1")) not in page(store, at(model("Run1"))).links


def test_a_version_comes_from_its_run(churn: Store) -> None:
    assert drawn(churn, model("churn_1"), upstream=True)[:2] == [
        model("run"),
        f".{feature('t', 'f')}",
    ]


@pytest.mark.parametrize("dataset", [ORDERS, TRAINING])
def test_the_registered_model_depends_on_a_dataset_that_is_only_referred_to(
    churn: Store, dataset: str
) -> None:
    urns = [line.lstrip(".") for line in drawn(churn, dataset, upstream=False)]
    assert {model("run"), model("churn_1"), group("registered:churn")} <= set(urns)
    assert len(urns) == len(set(urns))
    assert "Lineage" in page(churn, at(dataset)).text


def test_the_lineage_of_a_table_is_that_of_its_features_which_are_none_themselves(
    churn: Store,
) -> None:
    assert drawn(churn, table("t"), upstream=True) == [ORDERS]
    assert drawn(churn, table("t"), upstream=False)[:2] == [model("run"), f".{group('churn')}"]
    other, key = feature("t", "unused"), "urn:li:mlPrimaryKey:(t,id)"
    every = {"mlFeatures": [feature("t", "f"), other], "mlPrimaryKeys": [key]}
    put(churn, table("t"), mlFeatureTableProperties=every)
    assert key not in " ".join(drawn(churn, table("t"), upstream=True))
    assert not [line for line in drawn(churn, model("run"), upstream=True) if other in line]


def test_what_two_entities_share_stands_below_both_and_is_unfolded_once(churn: Store) -> None:
    put(churn, feature("t", "g"), mlFeatureProperties={"sources": [ORDERS]})
    both = {"name": "hare", "mlFeatures": [feature("t", "f"), feature("t", "g")]}
    put(churn, model("run"), mlModelProperties={**both, "groups": [group("churn")]})
    assert drawn(churn, ORDERS, upstream=False) == [
        feature("t", "f"),
        f".{model('run')}",
        f"..{group('churn')}",
        feature("t", "g"),
        f".{model('run')}",
    ]
    text = lists(churn, ORDERS)
    assert text.count("hare") == 2
    assert text.count("see above") == 1
    ends = [name for name, _, _ in boxes(churn, ORDERS)]
    assert sorted(ends) == sorted({*ends})


def test_a_run_is_in_its_experiment_which_does_not_come_from_it(churn: Store) -> None:
    experiment = {"typeNames": ["ML Experiment"]}
    put(churn, group("churn"), mlModelGroupProperties={}, subTypes=experiment)
    assert drawn(churn, group("churn"), upstream=True) == []
    assert drawn(churn, model("run"), upstream=False) == [
        model("churn_1"),
        f".{group('registered:churn')}",
    ]


def test_the_page_links_each_entity_once_with_its_kind(churn: Store) -> None:
    text = lists(churn, model("run"))
    assert "Feature f Dataset lake/orders" in text
    assert "Model Version churn_1" in text
    assert "lake/training referenced, not ingested" in text
    assert len(re.findall("lake/training", text)) == 1
    assert at(TRAINING) in page(churn, at(model("run"), "?tab=lineage")).links


def test_a_removed_entity_is_marked_and_a_circle_ends(store: Store) -> None:
    put(store, ORDERS, upstreamLineage={"upstreams": [{"dataset": TRAINING, "type": "COPY"}]})
    put(store, TRAINING, upstreamLineage={"upstreams": [{"dataset": ORDERS, "type": "COPY"}]},
        status={"removed": True})  # fmt: skip
    assert drawn(store, ORDERS, upstream=True) == [TRAINING]
    assert "lake/training removed" in page(store, at(ORDERS, "?tab=lineage")).text


def test_the_tab_of_an_entity_without_lineage(store: Store) -> None:
    put(store, model("alone"), mlModelProperties={})
    assert "Nothing in the catalog." in page(store, at(model("alone"), "?tab=lineage")).text


def trained_on(store: Store, dataset: str, count: int) -> None:
    training = {"trainingData": [{"dataset": dataset}]}
    store.write([Write(model(f"m{at:04}"), "mlModelTrainingData", training) for at in range(count)])


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (EACH, ""),
        (EACH + 1, "+1 model"),
        (EACH + 120, "+120 models"),
        (COUNTED + 1, f"+{COUNTED - EACH} or more models"),
    ],
)
def test_links_beyond_those_shown_are_one_line_and_one_box(
    store: Store, count: int, text: str
) -> None:
    trained_on(store, ORDERS, count)
    assert [name for name, _, _ in boxes(store, ORDERS)][1 + EACH :] == [text] * bool(text)
    assert ("+" in lists(store, ORDERS)) is bool(text)
    assert text in lists(store, ORDERS)


@pytest.mark.parametrize(
    ("kinds", "text"), [(["Run"], "+4 runs"), (["Run", "Model Version"], "+4 models")]
)
def test_links_that_are_not_shown_are_called_by_their_kind(
    store: Store, kinds: list[str], text: str
) -> None:
    trained_on(store, ORDERS, EACH + 4)
    for number in range(EACH + 4):
        kind = kinds[number % len(kinds)]
        put(store, model(f"m{number:04}"), subTypes={"typeNames": [kind]})
    assert text in lists(store, ORDERS)


def test_the_line_of_links_that_are_not_shown_opens_the_list_of_all(store: Store) -> None:
    put(store, feature("t", "f"), mlFeatureProperties={"sources": [ORDERS]})
    features = {"mlFeatures": [feature("t", "f")]}
    store.write([Write(model(f"m{at:02}"), "mlModelProperties", features) for at in range(60)])
    found = page(store, at(ORDERS, "?tab=lineage"))
    [href] = [href for href, text in found.links.items() if text == "+48 models"]
    first = page(store, href)
    assert "Downstream of f" in first.text
    assert "1 to 50 of 60" in first.text
    [second] = [href for href, text in first.links.items() if text == "Next"]
    assert "m59" in page(store, second).text


def test_the_list_of_a_table_has_what_its_features_are_linked_to(churn: Store) -> None:
    listed = page(churn, at(table("t"), f"?tab=lineage&way=upstream&of={table('t')}"))
    assert "Upstream of t" in listed.text
    assert at(ORDERS) in listed.links
    assert at(feature("t", "f")) not in listed.links
    for way, of in (("sideways", table("t")), ("upstream", ""), ("upstream", "no urn")):
        page(churn, at(table("t"), f"?tab=lineage&way={way}&of={of}"))


def test_entities_of_several_types_that_are_not_shown_are_called_more(store: Store) -> None:
    put(store, ORDERS, upstreamLineage={"upstreams": [{"dataset": TRAINING, "type": "COPY"}]})
    for number in range(EACH):
        put(store, feature("t", f"f{number:02}"), mlFeatureProperties={"sources": [TRAINING]})
    trained_on(store, TRAINING, 1)
    assert "+2 more" in lists(store, TRAINING)


def test_the_picture_has_what_comes_first_on_the_left(churn: Store) -> None:
    left = {name: x for name, x, _ in boxes(churn, model("run"))}
    assert left["lake/orders"] < left["f"] < left["hare"] < left["churn_1"]
    assert left["lake/training"] < left["hare"]


def test_a_circle_is_drawn_once_with_an_arrow_back(store: Store) -> None:
    chain = [f"urn:li:dataset:(urn:li:dataPlatform:s3,d{index},PROD)" for index in range(4)]
    for after, before in zip(chain, [*chain[1:], chain[0]], strict=True):
        put(store, after, upstreamLineage={"upstreams": [{"dataset": before, "type": "COPY"}]})
    view = lineage_view(store, chain[0])
    assert view.picture is not None
    assert [node.row.urn for node in view.picture.nodes if node.row] == chain
    assert sorted(back for _, back in view.picture.paths) == [False, False, False, True]


def test_more_entities_than_are_shown_are_announced(store: Store) -> None:
    features = [feature("t", f"f{index:02}") for index in range(EACH)]
    put(store, model("m"), mlModelProperties={"mlFeatures": features})
    sources = [
        [f"urn:li:dataset:(urn:li:dataPlatform:s3,d{index}.{part},PROD)" for part in range(EACH)]
        for index in range(EACH)
    ]
    store.write(
        [
            Write(urn, "mlFeatureProperties", {"sources": found})
            for urn, found in zip(features, sources, strict=True)
        ]
    )
    assert len(drawn(store, model("m"), upstream=True)) == MOST
    text = page(store, at(model("m"), "?tab=lineage")).text
    assert f"There are more: these are the {MOST} nearest." in text


@pytest.mark.parametrize("longer", [0, 1])
def test_hops_beyond_those_shown_are_announced(store: Store, longer: int) -> None:
    chain = [f"urn:li:dataset:(urn:li:dataPlatform:s3,d{index},PROD)" for index in range(HOPS + 1)]
    for after, before in pairwise(chain[: HOPS + longer]):
        put(store, after, upstreamLineage={"upstreams": [{"dataset": before, "type": "COPY"}]})
    assert len(drawn(store, chain[0], upstream=True)) == HOPS - 1 + longer
    text = page(store, at(chain[0], "?tab=lineage")).text
    assert (f"Only {HOPS} hops are shown." in text) is bool(longer)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_in_lineage_are_only_text(store: Store, name: str) -> None:
    custom = {"mlflow.run_model": name, "mlflow.versions": name}
    put(
        store,
        model("m"),
        mlModelProperties={"name": name, "groups": [group("g")], "customProperties": custom},
    )
    put(store, group("g"), mlModelGroupProperties={"name": name})
    found = page(store, at(model("m"), "?tab=lineage"))
    assert " ".join(visible(name).replace("\x00", "").split()) in found.text.replace(
        "\x00", ""
    ).replace("\ufffd", "")


def test_a_tree_takes_the_same_statements_however_wide_it_is(churn: Store) -> None:
    with statements(churn) as few:
        lineage_view(churn, ORDERS)
    churn.write(
        [
            Write(model(f"m{index}"), "mlModelProperties", {"mlFeatures": [feature("t", "f")]})
            for index in range(100)
        ]
    )
    with statements(churn) as many:
        lineage_view(churn, ORDERS)
    assert len(many) <= len(few)
