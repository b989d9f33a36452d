"""Our URNs against the typed URN classes of the DataHub SDK."""

from collections.abc import Callable

import pytest
from datahub.emitter.mce_builder import make_dataset_urn
from datahub.metadata import urns as sdk
from hypothesis import assume, example, given, reject
from hypothesis import strategies as st

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.urn import (
    FABRICS,
    KINDS,
    OWN_KINDS,
    build,
    dataset,
    encode_foreign,
    encode_own,
)
from support.names import HOSTILE, names

MLFLOW = "urn:li:dataPlatform:mlflow"
FLOW = "urn:li:dataFlow:(airflow,f,PROD)"

# How the SDK makes the URN that `build(kind, *(lead, name, tail))` makes.
FOREIGN: dict[str, tuple[Callable[[str], sdk.Urn], tuple[str, ...], tuple[str, ...]]] = {
    "dataset": (
        lambda name: sdk.DatasetUrn("hive", name),
        ("urn:li:dataPlatform:hive",),
        ("PROD",),
    ),
    "dataPlatform": (sdk.DataPlatformUrn, (), ()),
    "dataPlatformInstance": (
        lambda name: sdk.DataPlatformInstanceUrn("mlflow", name),
        (MLFLOW,),
        (),
    ),
    "dataFlow": (lambda name: sdk.DataFlowUrn("airflow", name, "PROD"), ("airflow",), ("PROD",)),
    "dataJob": (lambda name: sdk.DataJobUrn(FLOW, name), (FLOW,), ()),
    "dataProcessInstance": (sdk.DataProcessInstanceUrn, (), ()),
    "versionSet": (lambda name: sdk.VersionSetUrn(name, "mlModel"), (), ("mlModel",)),
    "container": (sdk.ContainerUrn, (), ()),
    "tag": (sdk.TagUrn, (), ()),
    "glossaryTerm": (sdk.GlossaryTermUrn, (), ()),
    "domain": (sdk.DomainUrn, (), ()),
    "structuredProperty": (sdk.StructuredPropertyUrn, (), ()),
    "corpuser": (sdk.CorpUserUrn, (), ()),
    "corpGroup": (sdk.CorpGroupUrn, (), ()),
    "test": (sdk.TestUrn, (), ()),
    "service": (sdk.ServiceUrn, (), ()),
    "api": (sdk.ApiUrn, (), ()),
    "agentSkill": (sdk.AgentSkillUrn, (), ()),
    "aiAgent": (sdk.AiAgentUrn, (), ()),
    "document": (sdk.DocumentUrn, (), ()),
}


def test_every_kind_that_others_write_too_is_compared() -> None:
    assert set(FOREIGN) == KINDS.keys() - OWN_KINDS


@pytest.mark.parametrize("entity_type", sorted(FOREIGN))
@given(name=names)
@example(name="100%, (x) %2C")
def test_names_of_others_are_spelled_as_the_sdk_does(entity_type: str, name: str) -> None:
    assume(not name.startswith("urn:"))
    theirs, lead, tail = FOREIGN[entity_type]
    try:
        urn = build(entity_type, *lead, name, *tail)
    except InvalidUrnError:
        reject()
    assert urn == str(theirs(name))
    assert str(sdk.Urn.from_string(urn)) == urn


@given(st.from_regex(r"[A-Za-z0-9_./ -]{1,40}", fullmatch=True), st.sampled_from(sorted(FABRICS)))
def test_a_plain_dataset_is_what_the_sdk_makes_of_it(name: str, env: str) -> None:
    assert dataset("hive", name, env) == make_dataset_urn("hive", name, env)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_the_sdk_takes_every_urn_of_ours(name: str) -> None:
    for naming in (Naming(), Naming("feast", "DEV", instance="a.b,c", workspace="(é)")):
        table = naming.feature_table(name, name)
        for named in (
            naming.model(name),
            naming.group(name),
            naming.registered_group(name),
            naming.version(name, "1"),
            table,
            naming.feature(table, name),
        ):
            theirs = sdk.Urn.from_string(named.urn)
            assert type(theirs) is not sdk.Urn
            assert str(theirs) == named.urn
            assert len(theirs.urn_url_encoded()) <= 512


@given(names)
def test_our_own_names_differ_from_the_sdks_only_where_they_have_to(name: str) -> None:
    urn = build("mlModel", MLFLOW, name[:20], "PROD")
    theirs = str(sdk.MlModelUrn("mlflow", name[:20], "PROD"))
    assert str(sdk.Urn.from_string(urn)) == urn
    if encode_own(name[:20]) == encode_foreign(name[:20]):
        assert urn == theirs
