"""The comparison of models: what differs first, the best marked."""

from typing import Any
from urllib.parse import urlencode

import pytest

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.app import create_app
from support.asgi import call
from support.catalog_store import feature, group, model, put
from support.names import HOSTILE
from support.pages import at, get, page


def put_run(store: Store, name: str, metrics: dict[str, Any], params: dict[str, Any]) -> str:
    return put(
        store,
        model(name),
        mlModelProperties={
            "name": name,
            "groups": [group("churn")],
            "trainingMetrics": [{"name": key, "value": str(metrics[key])} for key in metrics],
            "hyperParams": [{"name": key, "value": str(params[key])} for key in params],
            "mlFeatures": [feature("t", f"of_{name}")],
            "customProperties": {"mlflow.run_id": name, "mlflow.status": "FINISHED"},
        },
        sourceCode={
            "sourceCode": [
                {"type": "ML_MODEL_SOURCE_CODE", "sourceCodeUrl": f"https://c.example/{name}"}
            ]
        },
    )


def compared(*names: str) -> str:
    return f"/compare?{urlencode([('urn', model(name)) for name in names])}"


def test_what_differs_comes_first_and_the_best_is_marked(store: Store) -> None:
    put_run(store, "a", {"auc": 0.9, "val_loss": 0.2, "n": 3}, {"alpha": 1, "depth": 8})
    put_run(store, "b", {"auc": 0.8, "val_loss": 0.1, "n": 3}, {"alpha": 1, "depth": 4})
    put_run(store, "c", {"val_loss": "nan"}, {"alpha": 1, "zeta": "x"})
    found = page(store, compared("a", "b", "c"))
    assert "Status FINISHED FINISHED FINISHED" in found.text
    assert "Code https://c.example/a https://c.example/b https://c.example/c" in found.text
    assert "Features of_a of_b of_c" in found.text
    assert "Parameters depth 8 4 zeta x alpha 1 1 1" in found.text
    assert "Metrics auc 0.9 best 0.8 n 3 3 val_loss 0.2 0.1 best nan" in found.text
    assert found.links[at(model("b"))] == "b"
    assert get(store, compared("a", "b", "c")).text.count('<tr class="differs">') == 7


def test_numbers_differ_that_are_rounded_to_one(store: Store) -> None:
    for name, seed in (("a", 20_240_115.5), ("b", 20_240_116.5)):
        put_run(store, name, {}, {"alpha": 1, "seed": seed})
    text = page(store, compared("a", "b")).text
    assert "Parameters seed 2.02401e+07 2.02401e+07 alpha 1 1" in text


def test_a_pruned_trial_says_so_beside_its_status(store: Store) -> None:
    for name, state in (("a", "PRUNED"), ("b", "COMPLETE")):
        custom = {"mlflow.run_id": name, "mlflow.status": "FINISHED", "state": state}
        put(store, model(name), mlModelProperties={"customProperties": custom})
    assert "Status FINISHED PRUNED FINISHED" in page(store, compared("a", "b")).text


def test_values_that_are_equal_are_the_best_together(store: Store) -> None:
    for name, auc in (("a", 0.9), ("b", 0.9), ("c", 0.8)):
        put_run(store, name, {"auc": auc}, {})
    assert "Metrics auc 0.9 best 0.9 best 0.8" in page(store, compared("a", "b", "c")).text


def test_equal_metrics_have_no_best(store: Store) -> None:
    put_run(store, "a", {"auc": 0.9}, {})
    put_run(store, "b", {"auc": "0.90"}, {})
    assert "best" not in page(store, compared("a", "b")).text


@pytest.mark.parametrize("names", [[], ["a"], ["a", "a"], ["a", "never"], list("abcdefghijk")])
def test_two_to_ten_models_are_compared(store: Store, names: list[str]) -> None:
    for name in "abcdefghijk":
        put_run(store, name, {}, {})
    answer = call(create_app(store), "GET", compared(*names), headers={"accept": "text/html"})
    assert answer.status == 400
    assert "<h1>Choose models to compare</h1>" in answer.text
    assert "Choose 2 to 10 models, and not" in answer.text
    assert "by the boxes before their names" in answer.text


def test_models_of_a_group_are_chosen_for_a_comparison(store: Store) -> None:
    put(store, group("churn"), mlModelGroupProperties={"name": "churn"})
    put_run(store, "a", {"auc": 0.9}, {})
    alone = get(store, at(group("churn"))).text
    assert "checkbox" not in alone.partition("<table")[2]
    put_run(store, "b", {"auc": 0.8}, {})
    listed = get(store, at(group("churn"))).text
    assert '<form action="/compare">' in listed
    for name in "ab":
        assert f'<input type="checkbox" name="urn" value="{model(name)}"' in listed


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_only_text(store: Store, name: str) -> None:
    put_run(store, "a", {name: 0.9}, {name: name})
    put_run(store, "b", {name: 0.8}, {name: "b"})
    page(store, compared("a", "b"))
    page(store, at(group("churn")))
