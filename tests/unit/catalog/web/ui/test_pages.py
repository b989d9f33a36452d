"""The pages as a browser gets them, without a socket."""

import html
import json
import re
from typing import Any
from urllib.parse import quote

import pytest

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.app import create_app
from mlcat_ingest.catalog.web.rest.operations import evaluate_stored
from mlcat_ingest.catalog.web.ui.text import visible
from mlcat_ingest.metadata.urn import build
from support.asgi import call
from support.catalog_store import feature, group, model, put, statements, table
from support.names import HOSTILE
from support.pages import Reader, at, get, page

ADA = "urn:li:corpuser:ada"
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def full_model(store: Store, run: str = "run1", **more: Any) -> str:
    put(store, feature("customers", "age"), mlFeatureProperties={"dataType": "COUNT"})
    put(store, group("churn"), mlModelGroupProperties={"name": "Churn", "description": "leaving"})
    put(store, ADA, corpUserInfo={"active": True, "displayName": "Ada L."})
    return put(
        store,
        model(run),
        mlModelProperties={
            "name": "bold-hare-1",
            "description": "first of all",
            "type": "Lasso",
            "version": {"versionTag": "7"},
            "created": {"time": 1_700_000_000_000},
            "externalUrl": "http://mlflow.example/run",
            "groups": [group("churn")],
            "mlFeatures": [feature("customers", "age"), feature("customers", "never")],
            "trainingMetrics": [{"name": "auc", "value": "0.912345678"}],
            "onlineMetrics": [{"name": "auc", "value": "0.8"}],
            "hyperParams": [{"name": "alpha", "value": "0.1"}],
            "hyperParameters": {"l1": {"double": 0.5}, "warm": {"boolean": True}},
            "customProperties": {"mlflow.user": "ada", "mlcat.source": "demo"},
            **more,
        },
        ownership={"owners": [{"owner": ADA, "type": "DATAOWNER"}]},
        globalTags={"tags": [{"tag": "urn:li:tag:gold"}]},
        sourceCode={
            "sourceCode": [
                {"type": "ML_MODEL_SOURCE_CODE", "sourceCodeUrl": "https://code.example/a"}
            ]
        },
        institutionalMemory={
            "elements": [
                {
                    "url": "https://doc.example",
                    "description": "Model card",
                    "createStamp": {"time": 1, "actor": ADA},
                }
            ]
        },
        subTypes={"typeNames": ["Run"]},
    )


# --- the first page and the lists ----------------------------------------------------------------


def test_an_empty_catalog_says_how_to_fill_it(store: Store) -> None:
    found = page(store, "/")
    assert "The catalog is empty" in found.text
    assert "mlcat-ingest http://127.0.0.1:5000 --to http://127.0.0.1:7001" in found.text


def test_the_first_page_counts_entities(store: Store) -> None:
    full_model(store)
    full_model(store, "run2")
    put(store, model("gone"), mlModelProperties={"groups": [group("churn")]},
        status={"removed": True})  # fmt: skip
    put(store, group("old"), mlModelGroupProperties={}, status={"removed": True})
    found = page(store, "/")
    assert found.links["/kind/mlModel"] == "2Models, 1 removed"
    assert found.links["/kind/mlModelGroup"] == "1Model group, 1 removed"
    assert found.links["/kind/corpuser"] == "1 User"
    assert "The catalog is empty" not in found.text


def test_a_list_of_a_kind_has_pages(store: Store) -> None:
    store.write([Write(model(f"m{index:03}"), "mlModelProperties", {}) for index in range(120)])
    first = page(store, "/kind/mlModel")
    assert "Models 120" in first.text
    assert "1 to 50 of 120" in first.text
    assert at(model("m119")) in first.links
    assert "/kind/mlModel?start=50" in first.links
    last = page(store, "/kind/mlModel?start=100")
    assert "101 to 120 of 120" in last.text
    assert "/kind/mlModel?start=50" in last.links
    assert "/kind/mlModel?start=150" not in last.links


def test_lists_are_in_the_order_of_the_times_that_they_show(store: Store) -> None:
    hour_ms = 3_600_000
    for name, hours in {"second": 2, "third": 1, "first": 3}.items():
        at_ms = 1_700_000_000_000 + hours * hour_ms
        put(store, group(name), mlModelGroupProperties={"created": {"time": at_ms}})
        put(store, model(name), mlModelProperties={"date": at_ms, "groups": [group("none")]})
    for target in ("/kind/mlModelGroup", "/kind/mlModel", at(group("none"))):
        shown = re.findall(r"2023-11-1\d \d\d:13 UTC", page(store, target).text)
        assert shown == ["2023-11-15 01:13 UTC", "2023-11-15 00:13 UTC", "2023-11-14 23:13 UTC"]


@pytest.mark.parametrize("start", ["-1", "x", "", "²", "9" * 30])
def test_a_start_that_is_none_is_the_beginning(store: Store, start: str) -> None:
    put(store, model("m"), mlModelProperties={})
    assert at(model("m")) in page(store, f"/kind/mlModel?start={quote(start)}").links


def test_kinds_that_have_no_label(store: Store) -> None:
    put(store, "urn:li:dataHubPolicy:p", dataHubPolicyInfo={"type": "x"})
    assert page(store, "/").links["/kind/dataHubPolicy"] == "1 dataHubPolicy"
    assert at("urn:li:dataHubPolicy:p") in page(store, "/kind/dataHubPolicy").links
    assert "No entities." in page(store, "/kind/tag").text


def test_search_finds_names_and_urns(store: Store) -> None:
    full_model(store)
    put(store, model("gone"), mlModelProperties={"name": "bold too"}, status={"removed": True})
    found = page(store, "/search?q=BOLD+hare")
    assert found.links[at(model("run1"))] == "bold-hare-1"
    assert "Search 1" in found.text
    assert "Model" in found.text
    assert at(model("gone")) not in page(store, "/search?q=bold").links
    assert "No results." in page(store, "/search?q=%25").text
    assert at(group("churn")) in page(store, "/search?q=churn").links
    assert at(model("run1")) in page(store, "/search").links


# --- one entity ----------------------------------------------------------------------------------


def test_the_overview_of_a_model(store: Store) -> None:
    urn, instance = full_model(store), "urn:li:dataPlatformInstance:(urn:li:dataPlatform:mlflow,eu)"
    platform = {"platform": "urn:li:dataPlatform:mlflow", "instance": instance}
    put(store, urn, dataPlatformInstance=platform, mlModelFactorPrompts={})
    found = page(store, at(urn))
    assert "bold-hare-1 Run mlflow PROD" in found.text
    assert "first of all" in found.text
    for fact in (
        "Model type Lasso",
        "Version 7",
        "Created 2023-11-14 22:13 UTC",
        "Owners Ada L.",
        "Tags gold",
        "MLflow Open in MLflow",
        "Code https://code.example/a",
        "Links Model card",
        "Metrics 2 auc 0.912346 auc (online) 0.8",
        "Parameters 3 alpha 0.1 l1 0.5 warm true",
        "Properties by MLflow and mlcat-ingest 1 mlflow.user ada",
        "Internal properties of mlcat-ingest Internal properties 1 mlcat.source demo",
        "Instance eu Created",
        "Aspect mlModelFactorPrompts {}",
    ):
        assert fact in found.text, fact
    assert found.links[at(ADA)] == "Ada L."
    assert found.links[at(model("run1"), "?tab=features")].split() == ["Features", "2"]
    assert found.links[at(model("run1"), "?tab=group")].split() == ["Group", "1"]
    assert found.links[at(model("run1"), "?format=json")] == "Raw JSON"


def test_a_run_and_its_versions_lead_to_each_other(store: Store) -> None:
    run = {"mlflow.run_id": "r1", "mlflow.versions": '["churn:7"]', "team": "growth"}
    more = {
        "mlflow.status": "FAILED",
        "mlflow.duration_ms": "185000",
        "mlflow.parentRunId": "r0",
        "mlflow.datasets": "d" * 301,
    }
    put(store, model("r1"), mlModelProperties={"name": "hare", "customProperties": run | more})
    version = {"mlflow.run_id": "r1", "mlflow.run_model": model("r1")}
    for name in ("churn_7", "other_1"):
        put(
            store,
            model(name),
            mlModelProperties={"name": name, "customProperties": version},
            subTypes={"typeNames": ["Model Version"]},
        )
    found = page(store, at(model("r1")))
    assert "hare Run mlflow PROD" in found.text
    assert "Status FAILED" in found.text
    assert "Duration 3 min 5 s" in found.text
    assert found.links[at(model("churn_7"))] == "churn_7"
    assert found.links[at(model("other_1"))] == "other_1"
    assert "parentRunId" not in found.text
    assert "Properties 1 team growth" in found.text
    assert f"mlflow.datasets {'d' * 120} … {'d' * 301}" in found.text
    back = page(store, at(model("churn_7")))
    assert "churn_7 Model Version mlflow PROD" in back.text
    assert "Run hare" in back.text
    assert back.links[at(model("r1"))] == "hare"


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("address", "is_linked"),
    [
        (f"https://git.example/acme/wine/commit/{COMMIT}", True),
        (f"javascript:alert('{COMMIT}')", False),
        ("https://git.example/acme/wine", False),
        (None, False),
    ],
)
def test_the_head_of_a_run_has_its_code_data_and_mlflow_page(
    store: Store, address: str | None, *, is_linked: bool
) -> None:
    custom = {"mlflow.run_id": "r1", "mlflow.status": "FINISHED", "mlflow.duration_ms": "4"}
    custom["mlflow.source.git.commit"] = COMMIT
    code = [{"type": "TRAINING_PIPELINE_SOURCE_CODE", "sourceCodeUrl": address}] if address else []
    put(
        store,
        model("r1"),
        mlModelProperties={
            "customProperties": custom,
            "type": "Lasso",
            "externalUrl": "https://mlflow.example/#/runs/r1",
        },
        mlModelTrainingData={"trainingData": [{"dataset": DATASET}]},
        sourceCode={"sourceCode": code},
    )
    found = page(store, at(model("r1")))
    assert re.search(
        f"Status FINISHED Duration 4 ms Commit {COMMIT[:12]} Trained on "
        "bank-lake/wine/train.parquet MLflow Open in MLflow Model type Lasso",
        found.text,
    )
    assert found.links["https://mlflow.example/#/runs/r1"] == "Open in MLflow"
    assert (address in found.links) is (is_linked or address == "https://git.example/acme/wine")
    if is_linked:
        assert address is not None
        assert found.links[address] == COMMIT[:12]
    assert ("Code" in found.text) is (address is not None and COMMIT not in address)
    assert not any(link.startswith("javascript") for link in found.links)


def test_the_features_of_a_run_link_to_their_tables(store: Store) -> None:
    features = [feature("shop", name) for name in ("a", "b", "c")]
    put(store, model("m"), mlModelProperties={"mlFeatures": features})
    put(store, table("<i>"), mlFeatureTableProperties={"mlFeatures": features[:2]})
    put(store, table("two"), mlFeatureTableProperties={"mlFeatures": features[:1]})
    put(
        store,
        table("gone"),
        mlFeatureTableProperties={"mlFeatures": features},
        status={"removed": True},
    )
    found = page(store, at(model("m"), "?tab=features"))
    assert "Name Feature table" in found.text
    assert "a referenced, not ingested <i> , two b referenced, not ingested <i> c" in found.text
    assert {at(table("<i>")), at(table("two"))} <= found.links.keys()
    assert at(table("gone")) not in found.links
    assert "Name Feature table" not in page(store, at(table("two"))).text


@pytest.mark.parametrize(
    ("datasets", "shown"),
    [
        ('[{"name": "iris", "digest": "d1"}, {"name": "x", "urn": "urn:li:x"}]', "iris d1 Created"),
        ('[{"name": "<b>"}, {}, 1, {"name": {"a": [2]}}]', "<b> [2] Created"),
        ('{"name": "iris"}', None),
        ('[{"name": "cut', None),
    ],
)
def test_the_head_of_a_run_names_datasets_without_a_place(
    store: Store, datasets: str, shown: str | None
) -> None:
    custom = {"mlflow.run_id": "r1", "mlflow.datasets": datasets}
    put(store, model("r1"), mlModelProperties={"customProperties": custom, "created": {"time": 1}})
    text = page(store, at(model("r1"))).text
    assert ("Datasets" in text) is (shown is not None)
    assert shown is None or f"Datasets {shown}" in text


@pytest.mark.parametrize(
    ("custom", "shown"),
    [({"mlflow.run_model": model("r")}, "acc 0.9 f1 0.8 loss 1 at step 0, last 0.5 "), ({}, "acc")],
)
def test_the_first_values_of_a_version_name_their_step(
    store: Store, custom: dict[str, str], shown: str
) -> None:
    metrics = [
        {"name": "loss", "value": "1.0", "description": "step 0"},
        {"name": "acc", "value": "0.9", "description": "step 30"},
        {"name": "f1", "value": "0.8", "description": "step 0"},
    ]
    properties = {"trainingMetrics": metrics, "customProperties": custom}
    put(store, model("v"), mlModelProperties=properties)
    of_run = [{"name": "f1", "value": "0.8"}, {"name": "loss", "value": "0.5"}]
    put(store, model("r"), mlModelProperties={"trainingMetrics": of_run})
    assert f"Metrics 3 {shown}" in page(store, at(model("v"))).text
    assert ("at step" in page(store, at(model("v"))).text) is bool(custom)


def test_features_that_nobody_wrote_are_distinguished(store: Store) -> None:
    found = page(store, at(full_model(store), "?tab=features"))
    assert found.links[at(feature("customers", "age"))] == "age"
    assert found.links[at(feature("customers", "never"))] == "never"
    assert "never referenced, not ingested" in found.text
    assert "age referenced" not in found.text
    assert "COUNT" in found.text


def test_the_group_tab(store: Store) -> None:
    found = page(store, at(full_model(store), "?tab=group"))
    assert found.links[at(group("churn"))] == "Churn"
    assert "leaving" in found.text


def test_the_models_of_a_group(store: Store) -> None:
    for index in range(60):
        full_model(store, f"run{index}", name=f"hare {index}")
    put(store, model("gone"), mlModelProperties={"groups": [group("churn")]},
        status={"removed": True})  # fmt: skip
    found = page(store, at(group("churn")))
    assert "Models 60" in found.text
    assert "auc" in found.text
    assert "hare 59 2023-11-14 22:13 UTC Ada L. 0.912346 first of all" in found.text
    assert at(model("gone")) not in found.links
    assert at(group("churn"), "?start=50") in found.links
    rest = page(store, at(group("churn"), "?tab=models&start=50"))
    assert "hare 0 " in rest.text
    assert at(group("churn"), "?start=0") in rest.links
    overview = page(store, at(group("churn"), "?tab=overview"))
    assert "No further metadata." in overview.text


def test_only_metrics_that_most_models_have_are_columns(store: Store) -> None:
    names = ("a", "b", "c", "d", "e")
    for index in range(5):
        metrics = [{"name": name, "value": "nan"} for name in names[: index + 1]]
        full_model(store, f"run{index}", trainingMetrics=metrics)
    found = page(store, at(group("churn")))
    assert "Created Owner a b c d Description" in found.text
    assert "nan" in found.text


def test_the_features_of_a_table(store: Store) -> None:
    urns = [feature("t", f"f{index}") for index in range(70)]
    put(store, table("t"), mlFeatureTableProperties={"mlFeatures": [*urns, urns[0]]})
    found = page(store, at(table("t")))
    assert "Features 70" in found.text
    assert found.links[at(urns[0])] == "f0"
    assert at(urns[69]) in page(store, at(table("t"), "?tab=features&start=50")).links


def test_a_removed_model_has_a_banner(store: Store) -> None:
    put(store, model("m"), mlModelProperties={}, status={"removed": True})
    found = page(store, at(model("m")))
    assert "This entity was deleted at its source." in found.text
    put(store, table("t"), mlFeatureTableProperties={"mlFeatures": [feature("t", "f")]})
    put(store, feature("t", "f"), mlFeatureProperties={}, status={"removed": True})
    assert "f removed" in page(store, at(table("t"))).text


def test_an_entity_that_is_only_referred_to_has_a_page(store: Store) -> None:
    full_model(store)
    found = page(store, at(feature("customers", "never")))
    assert "Referenced, not ingested" in found.text
    assert "Raw JSON" not in found.text
    users = page(store, at(feature("customers", "never"), "?tab=used"))
    assert users.links[at(model("run1"))] == "bold-hare-1"
    assert "bold-hare-1 Run" in users.text
    assert get(store, at(feature("customers", "never"), "?format=json")).status == 404


DATASET = "urn:li:dataset:(urn:li:dataPlatform:s3,bank-lake/wine/train.parquet,PROD)"
RUN = "urn:li:dataProcessInstance:r1"
SET = "urn:li:versionSet:(a,mlModel)"
FAILED = {"test": "urn:li:test:t", "type": "FAILURE"}
GOLD, RISK, TEST = "urn:li:tag:gold", "urn:li:domain:risk", "urn:li:test:t"
VERSION = {"versionSet": SET, "version": {"versionTag": "1"}, "sortId": "1"}
LEARNED = feature("t", "f")


@pytest.mark.parametrize(
    ("target", "urn", "aspect", "value"),
    [
        (DATASET, model("m"), "mlModelTrainingData", {"trainingData": [{"dataset": DATASET}]}),
        (DATASET, model("m"), "mlModelEvaluationData", {"evaluationData": [{"dataset": DATASET}]}),
        (DATASET, LEARNED, "mlFeatureProperties", {"sources": [DATASET]}),
        (
            *(DATASET, DATASET.replace("train", "test"), "upstreamLineage"),
            {"upstreams": [{"dataset": DATASET, "type": "COPY"}]},
        ),
        (model("m"), RUN, "dataProcessInstanceOutput", {"outputs": [model("m")]}),
        (RUN, group("g"), "mlModelGroupProperties", {"trainingJobs": [RUN]}),
        (group("g"), model("m"), "mlModelProperties", {"groups": [group("g")]}),
        (LEARNED, table("t"), "mlFeatureTableProperties", {"mlFeatures": [LEARNED]}),
        (LEARNED, model("m"), "mlModelProperties", {"mlFeatures": [LEARNED]}),
        (SET, model("m"), "versionProperties", VERSION),
        (ADA, model("m"), "ownership", {"owners": [{"owner": ADA, "type": "DATAOWNER"}]}),
        (GOLD, table("t"), "globalTags", {"tags": [{"tag": GOLD}]}),
        (RISK, model("m"), "domains", {"domains": [RISK]}),
        (
            TEST,
            model("m"),
            "testResults",
            {"passing": [], "failing": [FAILED]},
        ),
    ],
)
def test_the_page_of_what_is_only_referred_to_names_who_refers_to_it(
    store: Store, target: str, urn: str, aspect: str, value: dict[str, Any]
) -> None:
    put(store, urn, **{aspect: value})
    found = page(store, at(target))
    tabs = [tab for tab in found.links if tab.startswith(at(target)) and "format=" not in tab]
    assert any(at(urn) in page(store, tab).links for tab in tabs)


def test_a_model_links_to_its_datasets(store: Store) -> None:
    put(store, model("m"), mlModelTrainingData={"trainingData": [{"dataset": DATASET}]})
    found = page(store, at(model("m")))
    assert found.links[at(DATASET)] == "bank-lake/wine/train.parquet"
    assert "Trained on bank-lake/wine/train.parquet" in found.text


def test_a_dataset_that_is_only_referred_to_names_its_users_first(store: Store) -> None:
    trained = {"trainingData": [{"dataset": DATASET}]}
    put(store, model("m"), mlModelProperties={"name": "hare"}, mlModelTrainingData=trained)
    put(store, LEARNED, mlFeatureProperties={"sources": [DATASET]})
    found = page(store, at(DATASET))
    assert found.links[at(model("m"))] == "hare"
    assert found.links[at(LEARNED)] == "f"
    assert re.search("Used by 2 Overview Lineage", found.text)


def test_the_models_of_a_group_are_in_one_tab(store: Store) -> None:
    full_model(store)
    assert at(group("churn"), "?tab=used") not in page(store, at(group("churn"))).links


def test_an_unknown_tab_is_the_first(store: Store) -> None:
    assert "Model type Lasso" in page(store, at(full_model(store), "?tab=nope")).text


def test_descriptions_that_people_wrote_go_first(store: Store) -> None:
    put(store, model("m"), mlModelProperties={"description": "theirs"},
        editableMlModelProperties={"description": "ours"})  # fmt: skip
    put(store, model("n"), mlModelProperties={"description": "theirs"},
        editableMlModelProperties={})  # fmt: skip
    assert "ours" in page(store, at(model("m"))).text
    assert "theirs" in page(store, at(model("n"))).text


def test_metadata_tests_and_their_results(store: Store) -> None:
    owned = {"property": "ownership", "operator": "exists"}
    for name, rules in {"pass": [], "fail": {"not": owned}}.items():
        text = json.dumps({"on": {"types": ["mlModel"]}, "rules": rules})
        info = {
            "name": name.upper(),
            "category": "ml",
            "description": f"about {name}",
            "definition": {"type": "JSON", "json": text},
        }
        put(store, f"urn:li:test:{name}", testInfo=info)
    urn = full_model(store)
    evaluate_stored(store, [urn], None, push=True)

    found = page(store, at(urn, "?tab=tests"))
    assert "Tests 2" in found.text
    assert re.search(r"✗ failing FAIL about fail \d{4}-.*✓ passing PASS about pass", found.text)
    assert "1 failing 1 passing" in page(store, at(group("churn"))).text

    test = page(store, at("urn:li:test:pass"))
    assert "Category ml" in test.text
    assert 'Definition as JSON { "on": { "types": [ "mlModel" ] }, "rules": [] }' in test.text
    assert at(urn) in page(store, at("urn:li:test:pass", "?tab=passing")).links
    assert "No entities." in page(store, at("urn:li:test:pass", "?tab=failing")).text


def test_results_without_entries(store: Store) -> None:
    put(store, model("m"), mlModelProperties={}, testResults={"passing": [], "failing": []})
    found = page(store, at(model("m"), "?tab=tests"))
    assert "No metadata test applies to this entity." in found.text


def test_features_datasets_and_other_kinds(store: Store) -> None:
    dataset = "urn:li:dataset:(urn:li:dataPlatform:s3,bucket/data,PROD)"
    put(
        store, dataset, datasetProperties={"name": "Data"}, domains={"domains": ["urn:li:domain:d"]}
    )
    put(store, feature("t", "f"), mlFeatureProperties={"sources": [dataset], "dataType": "TEXT"})
    term = {"name": "PII", "definition": "personal data", "termSource": "INTERNAL"}
    put(store, "urn:li:glossaryTerm:pii", glossaryTermInfo=term)
    assert "Data type TEXT Sources Data" in page(store, at(feature("t", "f"))).text
    assert "Domain d" in page(store, at(dataset)).text
    assert page(store, at(dataset, "?tab=used")).links[at(feature("t", "f"))] == "f"
    assert "personal data" in page(store, at("urn:li:glossaryTerm:pii")).text


def test_a_run_leads_from_its_datasets_to_its_models(store: Store) -> None:
    orders = build("dataset", build("dataPlatform", "s3"), "lake/orders", "PROD")
    run = put(
        store,
        "urn:li:dataProcessInstance:r",
        dataProcessInstanceProperties={"name": "night", "created": {"time": 1, "actor": ADA}},
        dataProcessInstanceInput={"inputs": [orders], "inputEdges": [{"destinationUrn": orders}]},
        mlTrainingRunProperties={"trainingMetrics": [{"name": "auc", "value": "0.91"}]},
    )
    trained = full_model(store, trainingJobs=[run])
    found = page(store, at(run))
    assert found.links[at(orders)] == "lake/orders"
    assert "auc 0.91" in found.text
    assert page(store, at(trained)).links[at(run)] == "night"
    assert page(store, at(orders, "?tab=used")).links[at(run)] == "night"
    assert page(store, at(run, "?tab=used")).links[at(trained)] == "bold-hare-1"


def test_the_raw_json(store: Store) -> None:
    answer = get(store, at(full_model(store), "?format=json"))
    assert answer.headers["content-type"] == "application/json"
    aspects = answer.json()["aspects"]
    assert answer.json()["urn"] == model("run1")
    assert aspects["mlModelProperties"]["value"]["type"] == "Lasso"
    assert aspects["mlModelProperties"]["systemMetadata"]["version"] == "1"


@pytest.mark.parametrize(
    "target", [at(model("no")), "/entity/junk", "/entity/", "/entity/%FF", "/entity/%00", at("<b>")]
)
def test_what_is_not_there_is_a_404_page(store: Store, target: str) -> None:
    assert "Not in the catalog" in page(store, target, 404).text


@pytest.mark.parametrize(
    "target", ["/nope", "/kind/bogus", "/kind/%3Cscript%3E", "/static/other.js", "/entities/x"]
)
def test_an_unknown_page_is_a_page_for_a_browser_and_json_for_others(
    store: Store, target: str
) -> None:
    app = create_app(store)
    answer = call(app, "GET", target, headers=BROWSER)
    assert answer.status == 404
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    found = Reader(answer.text)
    assert "Page not found" in found.text
    assert found.links["/"]
    for accept in ("*/*", "application/json"):
        assert call(app, "GET", target, headers={"accept": accept}).json()["status"] == 404


@pytest.mark.parametrize(
    "target", ["/gms/nope", "/api/nope", "/openapi/v3/nope", "/aspects/urn:li:tag:x"]
)
def test_a_browser_on_a_path_of_the_interface_gets_json(store: Store, target: str) -> None:
    answer = call(create_app(store), "GET", target, headers=BROWSER)
    assert answer.status in {400, 404}
    assert answer.headers["content-type"] == "application/json"


# --- hostile names -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_are_only_text(store: Store, name: str) -> None:
    urn = model("m")
    properties = {
        "name": name,
        "description": name,
        "type": name,
        "externalUrl": f"javascript:{name}",
        "trainingMetrics": [{"name": name, "value": name}],
        "hyperParams": [{"name": name, "value": name}],
        "customProperties": {name: name},
        "groups": [group("g")],
    }
    put(store, urn, mlModelProperties=properties)
    put(store, group("g"), mlModelGroupProperties={"name": name, "description": name})
    shown = " ".join(visible(name).replace("\x00", "").split())
    for target in ("/", at(urn), at(group("g")), "/kind/mlModel", f"/search?q={quote(name)}"):
        found = page(store, target)
        assert not any(link.startswith("javascript") for link in found.links)
        if target != f"/search?q={quote(name)}":
            assert shown in found.text.replace("\x00", "").replace("\ufffd", "")


@pytest.mark.parametrize("name", [*HOSTILE.values(), "a/../b", "?x=1#y", "..", "%2e%2e", "a;b&c"])
def test_every_name_in_a_urn_has_a_page_that_its_link_leads_to(store: Store, name: str) -> None:
    urn = build("mlModelGroup", "urn:li:dataPlatform:mlflow", name[:40], "PROD")
    put(store, urn, mlModelGroupProperties={"description": "found it"})
    (link,) = [link for link in page(store, "/").links if link.startswith("/entity/")]
    assert "found it" in page(store, link).text


# --- the rest ------------------------------------------------------------------------------------


def test_the_style_is_served_with_its_address_in_the_page(store: Store) -> None:
    source = get(store, "/").text
    (address,) = re.findall(r'<link rel="stylesheet" href="([^"]+)">', source)
    answer = get(store, html.unescape(address))
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/css")
    assert "immutable" in answer.headers["cache-control"]
    assert b"prefers-color-scheme: dark" in answer.body
    assert b"http" not in answer.body


def test_the_pages_are_part_of_the_service(store: Store) -> None:
    assert "Catalog contents" in call(create_app(store), "GET", "/").text
    assert call(create_app(store), "HEAD", "/").status == 200
    assert call(create_app(store), "POST", "/").status == 405


def test_pages_take_a_handful_of_statements(store: Store) -> None:
    writes = [
        Write(model(f"m{index}"), "mlModelProperties", {"groups": [group("g")]})
        for index in range(300)
    ]
    store.write([*writes, Write(group("g"), "mlModelGroupProperties", {})])
    limits = {"/": 50, at(group("g")): 27, at(model("m1"), "?tab=group"): 14, "/kind/mlModel": 14}
    for target, limit in limits.items():
        with statements(store) as seen:
            page(store, target)
        assert len(seen) <= limit, target
