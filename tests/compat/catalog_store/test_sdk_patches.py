"""What the SDK's patch builders send is what was recorded, and makes aspects the SDK can read."""

import json
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.catalog.store.patch import apply_patch, blank, read_patch
from support.sdk_warnings import SDK_WARNINGS

pytestmark = SDK_WARNINGS

schema = pytest.importorskip("datahub.metadata.schema_classes")
datasets = pytest.importorskip("datahub.specific.dataset")
jobs = pytest.importorskip("datahub.specific.datajob")
charts = pytest.importorskip("datahub.specific.chart")
dashboards = pytest.importorskip("datahub.specific.dashboard")

RECORDED = Path(__file__).parents[2] / "unit" / "catalog" / "store" / "sdk_patches.json"
JOB = "urn:li:dataJob:(urn:li:dataFlow:(airflow,f,PROD),{})"
SOURCE = "urn:li:dataHubAction:a"


def dataset(name: str) -> str:
    return f"urn:li:dataset:(urn:li:dataPlatform:hive,{name},PROD)"


def field(letter: str) -> str:
    return f"urn:li:schemaField:({dataset('t')},{letter})"


def people_and_tags(builder: Any) -> None:
    builder.add_tag(schema.TagAssociationClass("urn:li:tag:c"))
    builder.remove_tag("urn:li:tag:x").remove_tag("urn:li:tag:y", attribution_source=SOURCE)
    builder.add_term(schema.GlossaryTermAssociationClass("urn:li:glossaryTerm:t"))
    builder.remove_term("urn:li:glossaryTerm:u")
    technical = schema.OwnershipTypeClass.TECHNICAL_OWNER
    builder.add_owner(schema.OwnerClass("urn:li:corpuser:x", technical))
    builder.remove_owner("urn:li:corpuser:y")
    builder.remove_owner("urn:li:corpuser:z", type_urn="urn:li:ownershipType:q")


def lineage(builder: Any) -> None:
    transformed = schema.DatasetLineageTypeClass.TRANSFORMED
    builder.add_upstream_lineage(schema.UpstreamClass(dataset("u"), transformed))
    builder.remove_upstream_lineage(dataset("w"))
    builder.add_fine_grained_lineage(
        schema.FineGrainedLineageClass(
            schema.FineGrainedLineageUpstreamTypeClass.FIELD_SET,
            schema.FineGrainedLineageDownstreamTypeClass.FIELD,
            upstreams=["urn:li:schemaField:(d,a)", "urn:li:schemaField:(d,b)"],
            downstreams=["urn:li:schemaField:(e,c)"],
            confidenceScore=0.5,
        )
    )


def built() -> list[Any]:
    of_dataset = datasets.DatasetPatchBuilder(dataset("t"))
    people_and_tags(of_dataset)
    of_dataset.add_custom_property("a/b~c", "1").remove_custom_property("gone")
    of_dataset.set_description("d")
    lineage(of_dataset)
    of_dataset.set_structured_property("io.p", ["v", 1.0]).remove_structured_property("io.q")
    of_dataset.add_documentation(schema.DocumentationAssociationClass("doc"))
    of_dataset.add_sibling(dataset("s"), primary=True)
    of_dataset.add_domain(schema.DomainAssociationClass("urn:li:domain:m"))
    of_dataset.for_field("f.g").add_tag(schema.TagAssociationClass("urn:li:tag:c"))
    of_job = jobs.DataJobPatchBuilder(JOB.format("j"))
    of_job.add_input_dataset(dataset("t")).remove_output_dataset(dataset("w"))
    of_job.add_input_datajob(JOB.format("k")).add_input_dataset_field(field("a"))
    return [*of_dataset.build(), *of_job.build()]


def built_of_others() -> list[Any]:
    chart = charts.ChartPatchBuilder("urn:li:chart:(looker,c)")
    chart.add_input_edge(dataset("t")).set_title("t")
    dashboard = dashboards.DashboardPatchBuilder("urn:li:dashboard:(looker,d)")
    dashboard.add_dataset_edge(dataset("t")).add_chart_edge("urn:li:chart:(looker,c)")
    sibling = datasets.DatasetPatchBuilder(dataset("t")).add_sibling(dataset("s"))
    return [*chart.build(), *dashboard.build(), *sibling.build()]


def sent(proposals: list[Any]) -> list[dict[str, Any]]:
    return [{"aspect": one.aspectName, "body": json.loads(one.aspect.value)} for one in proposals]


def test_the_sdk_sends_what_was_recorded() -> None:
    recorded = json.loads(RECORDED.read_text())
    assert sent(built()) == [{"aspect": one["aspect"], "body": one["body"]} for one in recorded]


@pytest.mark.parametrize("one", sent([*built(), *built_of_others()]), ids=lambda one: one["aspect"])
def test_what_a_patch_makes_can_be_read_by_the_sdk(one: dict[str, Any]) -> None:
    body = one["body"]
    operations = body["patch"] if isinstance(body, dict) else body
    # Nothing is there to be removed.
    adding = [operation for operation in operations if operation["op"] == "add"]
    envelope = {**body, "patch": adding} if isinstance(body, dict) else {"patch": adding}
    start = blank(one["aspect"], 5)
    made = apply_patch(read_patch(one["aspect"], envelope), start)
    record = schema.ASPECT_NAME_MAP[one["aspect"]]
    assert record.from_obj(made, tuples=False).validate()
