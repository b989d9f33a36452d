"""A model's page: what MLflow says of it in JSON, as tables; its pages there; rounded numbers."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.facts import Piece, overview
from mlcat_ingest.catalog.web.ui.lists import Listing
from mlcat_ingest.catalog.web.ui.text import file_size, rounded
from mlcat_ingest.core.text import json_or_none
from mlcat_ingest.metadata.passport import KeptVersion, passport
from support.catalog_store import group, model, put
from support.names import HOSTILE
from support.pages import at, get, page

GOLDEN = Path(__file__).parents[4] / "golden" / "mlflow"
RUN_PAGE = "https://mlflow.example/base/#/experiments/1/runs/r%2F1"
INPUTS = [
    {"type": "double", "name": "amount", "required": True},
    {"type": "array", "items": {"type": "string"}, "name": "tags", "required": False},
    {"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 28, 28]}},
    {"type": "map", "values": {"type": "long"}, "name": "counts", "required": True},
    {"type": "object", "properties": {"x": {"type": "long"}}, "name": "at", "required": True},
]
PARAMETERS = [{"name": "threshold", "type": "double", "default": 0.5, "shape": [-1]}]


def tables(store: Store, custom: Mapping[str, str], **more: object) -> dict[str, list[list[str]]]:
    """Put a model, and return the tables of its page: titles of columns, and texts of cells."""
    properties = {"customProperties": custom, **more}
    put(store, model("m"), mlModelProperties=properties)
    found = overview(store, model("m"), {}, properties).tables
    return {table.title: [*lines(table)] for table in found}


def lines(table: Listing) -> Iterator[list[str]]:
    yield [column.title for column in table.columns]
    for row in table.rows:
        cells = [column.cell(row) for column in table.columns]
        yield [cell.text for cell in cells if isinstance(cell, Piece)]


def test_a_signature_is_a_table_of_names_types_and_shapes(store: Store) -> None:
    custom = {
        "signature.inputs": json.dumps(INPUTS),
        "signature.parameters": json.dumps(PARAMETERS),
    }
    assert tables(store, custom) == {
        "Signature": [
            ["Name", "Part", "Type", "Shape", "Required", "Default"],
            ["amount", "input", "double", "", "yes", ""],
            ["tags", "input", "array of string", "", "no", ""],
            ["(no name)", "input", "float32", "(-1, 28, 28)", "", ""],
            ["counts", "input", "map of long", "", "yes", ""],
            ["at", "input", "object (x: long)", "", "yes", ""],
            ["threshold", "parameter", "double", "(-1)", "", "0.5"],
        ]
    }


def test_signatures_of_several_models_name_their_model(store: Store) -> None:
    signature = {
        "models:/m-1": {"outputs": [{"type": "long"}]},
        "models:/m-2": {"inputs": INPUTS[:1]},
    }
    assert tables(store, {"mlflow.signature": json.dumps(signature)})["Signature"] == [
        ["Name", "Part", "Type", "Required", "Model"],
        ["(no name)", "output", "long", "", "models:/m-1"],
        ["amount", "input", "double", "yes", "models:/m-2"],
    ]


def test_logged_models_and_datasets_are_tables_with_links(store: Store) -> None:
    dataset = "urn:li:dataset:(urn:li:dataPlatform:s3,lake/train,PROD)"
    custom = {
        "mlflow.logged_models": json.dumps(
            [{"id": "m-1", "name": "forest", "step": 3, "params": {"depth": "3"}}, {"id": "m-2"}]
        ),
        "mlflow.datasets": json.dumps(
            [
                {"name": "train", "urn": dataset, "context": "training", "rows": 9},
                {"name": "code", "source_type": "code"},
            ]
        ),
        "mlflow.modelVersions": json.dumps([{"name": "churn", "version": 7}]),
        "mlflow.model_inputs": json.dumps(["m-9", "m-8"]),
    }
    address = f"{RUN_PAGE}?workspace=a"
    assert tables(store, custom, externalUrl=address) == {
        "Logged models": [
            ["Name", "Step", "Params", "Id"],
            ["forest", "3", "depth: 3", "m-1"],
            ["m-2", "", "", "m-2"],
        ],
        "Datasets": [
            ["Name", "Context", "Rows", "Source type"],
            ["train", "training", "9", ""],
            ["code", "", "", "code"],
        ],
    }
    found = page(store, at(model("m")))
    there = "https://mlflow.example/base/#/experiments/1/models/m-1?workspace=a"
    assert found.links[there] == "forest"
    assert found.links[at(dataset)] == "train"
    assert "mlflow.modelVersions churn 7" in found.text
    assert "mlflow.model_inputs m-9, m-8" in found.text
    assert "[{" not in found.text
    assert "mlflow.datasets" not in found.text


@pytest.mark.parametrize(
    "case", sorted(path.parent.name for path in GOLDEN.glob("*/proposals.json"))
)
def test_nothing_that_the_source_writes_of_a_model_is_shown_as_json(
    store: Store, case: str
) -> None:
    proposals = json.loads((GOLDEN / case / "proposals.json").read_text())
    for proposal in proposals:
        if properties := proposal["aspects"].get("mlModelProperties"):
            shown = overview(store, proposal["urn"], {}, properties)
            texts = [text for _, text in (*shown.custom, *shown.mlflow)]
            kept = {"mlModelProperties": [KeptVersion(1, properties, 0, "")]}
            texts += [
                line.value for line in passport(proposal["urn"], lambda *_, kept=kept: kept).lines
            ]
            assert not [text for text in texts if isinstance(json_or_none(text), list | dict)]


def test_a_text_in_another_form_is_shown_as_it_is(store: Store) -> None:
    custom = {"mlflow.datasets": "cut [{", "signature.inputs": "7", "mlflow.logged_models": '["a"]'}
    assert tables(store, custom) == {}
    text = page(store, at(model("m"))).text
    assert "mlflow.datasets cut [{" in text
    assert "signature.inputs 7" in text
    assert "mlflow.logged_models a" in text


def test_a_type_that_is_nested_too_deeply_is_cut(store: Store) -> None:
    column: dict[str, object] = {"type": "long"}
    for _ in range(200):
        column = {"type": "array", "items": column}
    [_, [_, _, text]] = tables(store, {"signature.outputs": json.dumps([column])})["Signature"]
    assert text == "array of " * 8 + "array"


def test_flavors_versions_and_sizes_are_facts(store: Store) -> None:
    custom = {
        "mlflow.model_flavors": "python_function,sklearn",
        "mlflow.framework_versions": "mlflow 3.17.2,sklearn 1.7.2",
        "mlflow.model_size_bytes": "1534000",
    }
    put(store, model("m"), mlModelProperties={"customProperties": custom})
    assert (
        "Flavors python_function, sklearn Made with mlflow 3.17.2, sklearn 1.7.2"
        " Model size 1.53 MB" in page(store, at(model("m"))).text
    )
    several = {"mlflow.model_size_bytes": json.dumps({"models:/m-1": 9, "models:/m-2": 2_000})}
    put(store, model("n"), mlModelProperties={"customProperties": several})
    assert "Model size models:/m-1 9 B models:/m-2 2 kB" in page(store, at(model("n"))).text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ("0", "0 B"),
        ("999", "999 B"),
        ("10000000000000000", "10000 TB"),
        ("x", "x"),
        ("9" * 5_000, "9" * 5_000),
    ],
)
def test_sizes_have_a_unit(size: str, text: str) -> None:
    assert file_size(size) == text


@pytest.mark.parametrize(
    ("value", "text", "full"),
    [
        ("0.91234567891", "0.912346", "0.91234567891"),
        ("1.0", "1", "1"),
        ("1234567.0", "1234567", "1234567"),
        ("1234567.5", "1.23457e+06", "1234567.5"),
        ("12345678901", "1.23457e+10", "12345678901"),
        ("NaN", "NaN", "NaN"),
        ("adam", "adam", "adam"),
    ],
)
def test_numbers_have_six_digits_and_keep_what_is_stored(value: str, text: str, full: str) -> None:
    number = rounded(value)
    assert (number, number.full) == (text, full)


def test_each_page_has_the_whole_value_of_a_metric_behind_the_rounded_one(store: Store) -> None:
    whole = "0.91234567891"
    for name in ("a", "b"):
        put(
            store,
            model(name),
            mlModelProperties={
                "groups": [group("g")],
                "customProperties": {"mlflow.status": "FINISHED"},
                "trainingMetrics": [{"name": "auc", "value": whole}],
            },
        )
    put(store, group("g"), mlModelGroupProperties={"name": "g"})
    urns = f"urn={model('a')}&urn={model('b')}"
    for address in (
        *(at(model("a")), at(group("g")), "/"),
        *(f"/compare?{urns}", "/search?q=metrics.auc%3E0.9"),
    ):
        html = get(store, address).text
        assert f'<abbr title="{whole}"><bdi>0.912346</bdi></abbr>' in html, address
        assert f">{whole}<" not in html


def test_a_metric_of_a_run_and_of_its_versions_leads_to_its_curve(store: Store) -> None:
    metrics = [{"name": "val/auc", "value": "0.9"}]
    online = [{"name": "auc", "value": "0.8"}]
    put(
        store,
        model("run"),
        mlModelProperties={
            "externalUrl": f"{RUN_PAGE}?workspace=a",
            "trainingMetrics": metrics,
            "onlineMetrics": online,
        },
    )
    put(
        store,
        model("version"),
        mlModelProperties={
            "externalUrl": "https://mlflow.example/base/#/models/churn/versions/1",
            "trainingMetrics": metrics,
            "customProperties": {"mlflow.run_model": model("run")},
        },
    )
    for name in ("run", "version"):
        links = page(store, at(model(name))).links
        curves = {href: text for href, text in links.items() if "/#/metric?" in href}
        assert curves == {
            "https://mlflow.example/base/#/metric?runs=%5B%22r%2F1%22%5D&metric=%22val%2Fauc%22"
            "&experiments=%5B%221%22%5D&plot_metric_keys=%5B%22val%2Fauc%22%5D&x_axis=step"
            "&workspace=a": "curve of val/auc in MLflow"
        }


def test_a_metric_that_only_a_logged_model_has_leads_to_its_page(store: Store) -> None:
    """MLflow shows an empty chart for a metric that the run does not have."""
    texts = {
        "auc": "step 0",
        "val/auc": "step 0, dataset logged model m-1",
        "rf/auc": "step -1, logged model m-1",
        "eval/train/auc": "logged model m/2, dataset eval (1f)",
    }
    metrics = [{"name": name, "value": "1", "description": text} for name, text in texts.items()]
    put(
        store,
        model("run"),
        mlModelProperties={"externalUrl": f"{RUN_PAGE}?workspace=a", "trainingMetrics": metrics},
    )
    put(
        store,
        model("version"),
        mlModelProperties={
            "trainingMetrics": metrics,
            "customProperties": {"mlflow.run_model": model("run")},
        },
    )
    models = "https://mlflow.example/base/#/experiments/1/models"
    for name in ("run", "version"):
        links = page(store, at(model(name))).links
        assert {text: href for href, text in links.items() if href.startswith(models)} == {
            "model of rf/auc in MLflow": f"{models}/m-1?workspace=a",
            "model of eval/train/auc in MLflow": f"{models}/m%2F2?workspace=a",
        }
        curves = [text for href, text in links.items() if "/#/metric?" in href]
        assert curves == ["curve of auc in MLflow", "curve of val/auc in MLflow"]


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)//https://m/#/experiments/1/runs/r",
        "file:///#/experiments/1/runs/r",
        "https://mlflow.example/#/experiments/1/runs/r onclick=x",
        "https://databricks.example/ml/experiments/1/runs/r",
    ],
)
def test_only_the_address_of_a_run_in_mlflow_leads_to_curves(store: Store, address: str) -> None:
    metrics = [{"name": "auc", "value": "0.9"}]
    put(store, model("m"), mlModelProperties={"externalUrl": address, "trainingMetrics": metrics})
    assert not [href for href in page(store, at(model("m"))).links if "metric" in href]


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_in_what_mlflow_says_are_only_text(store: Store, name: str) -> None:
    column = {"name": name, "type": name, "required": name, "default": [name]}
    custom = {
        "signature.inputs": json.dumps([column]),
        "mlflow.signature": json.dumps({name: {"inputs": [column]}}),
        "mlflow.logged_models": json.dumps([{"id": name, "name": name, "params": {name: name}}]),
        "mlflow.datasets": json.dumps([{"name": name, "urn": name}]),
        "mlflow.model_flavors": name,
        "mlflow.model_size_bytes": name,
    }
    metrics = [{"name": name, "value": name}]
    properties = {"customProperties": custom, "externalUrl": RUN_PAGE, "trainingMetrics": metrics}
    put(store, model("m"), mlModelProperties=properties)
    found = page(store, at(model("m")))
    assert all(href.startswith(("/", "https://mlflow.example/", "#")) for href in found.links)
