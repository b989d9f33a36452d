"""Kinds, places and child runs on the pages."""

from typing import Any
from urllib.parse import urlencode

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.children import (
    SHOWN_CHILDREN,
    children_of,
    models_of_group,
    nested_rows,
)
from support.catalog_store import MLFLOW, group, model, put, statements
from support.pages import at, get, page

INSTANCE = f"urn:li:dataPlatformInstance:({MLFLOW},eu)"


def put_run(store: Store, run: str, parent: str | None = None, *, of: str = "churn") -> str:
    custom = {} if parent is None else parent_properties(parent)
    return put(
        store,
        model(run),
        mlModelProperties={"name": run, "groups": [group(of)], "customProperties": custom},
    )


def parent_properties(parent: str) -> dict[str, str]:
    return {"mlflow.parent_run": model(parent), "mlflow.parent_run_name": f"the {parent}"}


def put_group(store: Store, urn: str, name: str, kind: str, *steps: dict[str, str]) -> str:
    path: dict[str, Any] = {"browsePathsV2": {"path": list(steps)}} if steps else {}
    put(store, urn, mlModelGroupProperties={"name": name}, subTypes={"typeNames": [kind]}, **path)
    return urn


def test_groups_of_one_name_differ_by_kind_and_place(store: Store) -> None:
    put_group(store, group("churn"), "churn", "ML Experiment")
    put_group(store, group("registered:churn"), "churn", "Registered Model")
    steps = ({"id": INSTANCE, "urn": INSTANCE}, {"id": "team-a"})
    put_group(store, group("eu.team-a.churn"), "churn", "ML Experiment", *steps)
    both = [group("churn"), group("registered:churn")]
    put(store, model("m"), mlModelProperties={"name": "m", "groups": both})
    found = page(store, "/search?q=churn").text
    assert "churn ML Experiment mlflow eu / team-a" in found
    assert "churn Registered Model mlflow" in found
    assert "Kind ML Experiment 2 Registered Model 1" in found
    narrowed = page(store, "/search?q=churn&kind=Registered+Model").text
    assert "Search 1" in narrowed
    listed = page(store, "/kind/mlModelGroup").text
    assert "churn ML Experiment eu / team-a" in listed
    assert "churn Registered Model" in listed
    groups = page(store, at(model("m"), "?tab=group")).text
    assert "churn ML Experiment churn Registered Model" in groups
    own = page(store, at(group("eu.team-a.churn")))
    assert "Model groups eu team-a churn ML Experiment mlflow PROD" in own.text


def test_an_entity_of_two_kinds_has_both(store: Store) -> None:
    put(store, put_run(store, "a"), subTypes={"typeNames": ["Evaluation Run", "Parent Run"]})
    assert "a Evaluation Run, Parent Run mlflow" in page(store, at(model("a"))).text


def test_a_path_leads_to_the_group_that_the_model_is_in(store: Store) -> None:
    put_group(store, group("churn"), "churn", "ML Experiment")
    path = {"path": [{"id": "team-a"}, {"id": "churn"}]}
    put(store, put_run(store, "a"), browsePathsV2=path)
    found = page(store, at(model("a")))
    assert "Models team-a churn a Model" in found.text
    assert found.links[at(group("churn"))] == "churn"


def test_the_default_path_is_no_place(store: Store) -> None:
    put_run(store, "a")
    assert "Default" not in page(store, at(model("a"))).text


def test_children_open_under_their_parent_on_the_page_of_the_group(store: Store) -> None:
    put_group(store, group("churn"), "churn", "ML Experiment")
    for run in ("parent", "alone"):
        put_run(store, run)
    for index in range(8):
        put_run(store, f"child{index}", "parent")
    put_run(store, "grandchild", "child7")
    found = page(store, at(group("churn")))
    assert "Models 11" in found.text
    assert "alone parent 8 child runs Compare" in found.text
    (link,) = (href for href, text in found.links.items() if text == "8 child runs")
    assert link == at(group("churn"), f"?{urlencode({'open': model('parent')})}")
    opened = page(store, link)
    assert (
        "alone parent 8 child runs all child7 1 child run child6 child5 child4 child3 child2 "
        "child1 child0 Compare" in opened.text
    )
    closing = f'<a href="{at(group("churn"))}" class="badge quiet" aria-expanded="true">8 child'
    assert closing in get(store, link).text
    assert opened.links[at(model("parent"), "?tab=children")] == "all"


def test_no_more_than_the_newest_children_are_opened(store: Store) -> None:
    put_run(store, "parent")
    for index in range(SHOWN_CHILDREN + 1):
        put_run(store, f"child{index}", "parent")
    rows = nested_rows(store, [model("parent")], opened=[model("parent")])
    assert [row.name for row in rows[:2]] == ["parent", f"child{SHOWN_CHILDREN}"]
    assert len(rows) == 1 + SHOWN_CHILDREN
    assert rows[0].children == SHOWN_CHILDREN + 1


def test_forms_and_links_of_a_group_keep_what_is_opened(store: Store) -> None:
    put_group(store, group("churn"), "churn", "ML Experiment")
    metrics = {"trainingMetrics": [{"name": "auc", "value": "0.9"}], "groups": [group("churn")]}
    for name in ("parent", "alone"):
        put(store, model(name), mlModelProperties={"name": name, **metrics})
    put_run(store, "child", "parent")
    hostile = "<b>&amp;"
    query = urlencode([("open", model("parent")), ("open", hostile)])
    target = at(group("churn"), f"?{query}")
    answer = get(store, target).text
    assert answer.count(f'<input type="hidden" name="open" value="{model("parent")}">') >= 2
    sorts = [link for link in page(store, target).links if "sort=-metrics.auc" in link]
    assert sorts
    assert all(query in link for link in sorts)
    flat = page(store, sorts[0])
    assert flat.links[at(model("child"))] == "child"


def test_a_child_of_a_parent_elsewhere_stands_alone(store: Store) -> None:
    put_group(store, group("churn"), "churn", "ML Experiment")
    put_run(store, "parent", of="other")
    put_run(store, "child", "parent")
    put_run(store, "orphan", "nowhere")
    assert models_of_group(store, group("churn"), 0, 9).urns == (model("orphan"), model("child"))


def test_parents_and_children_lead_to_each_other(store: Store) -> None:
    put_run(store, "parent")
    for index in range(60):
        put_run(store, f"child{index}", "parent")
    parent = page(store, at(model("parent")))
    assert "Child runs 60" in parent.text
    listed = page(store, at(model("parent"), "?tab=children"))
    assert listed.links[at(model("child59"))] == "child59"
    assert "1 to 50 of 60" in listed.text
    assert at(model("child0")) in page(store, at(model("parent"), "?tab=children&start=50")).links
    child = page(store, at(model("child7")))
    assert "Child run of the parent" in child.text
    assert child.links[at(model("parent"))] == "the parent"
    assert "Child runs" not in child.text


def test_a_removed_child_is_left_out(store: Store) -> None:
    put_run(store, "parent")
    put(store, put_run(store, "gone", "parent"), status={"removed": True})
    put_run(store, "child", "parent")
    assert children_of(store, model("parent"), 0, 9).urns == (model("child"),)
    (_, child) = nested_rows(store, [model("parent")], opened=[model("parent")])
    assert (child.urn, child.depth) == (model("child"), 1)


def test_rows_take_three_statements_however_many_children_there_are(store: Store) -> None:
    for parent in range(5):
        put_run(store, f"p{parent}")
        for child in range(parent):
            put_run(store, f"c{parent}.{child}", f"p{parent}")
    with statements(store) as counted:
        parents = [model(f"p{parent}") for parent in range(5)]
        rows = nested_rows(store, parents, opened=parents)
    assert [(row.name, row.children) for row in rows if not row.depth] == [
        (f"p{parent}", parent) for parent in range(5)
    ]
    assert len(counted) == 3
