import pytest

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata import urn as urns
from mlcat_ingest.metadata.declaration import choices
from mlcat_ingest.metadata.urn import (
    build,
    by_entity_type,
    check,
    decoded_parts,
    encoded_bytes,
    raw_parts,
)

MLFLOW = "urn:li:dataPlatform:mlflow"


def test_the_environments_are_those_of_the_aspects() -> None:
    assert set(choices("com.linkedin.container.ContainerProperties", "env")) == urns.FABRICS
    assert len(urns.FABRICS) == 17


def test_every_kind_the_catalog_speaks_of_can_be_built() -> None:
    wanted = (
        "mlModel mlModelGroup mlFeature mlFeatureTable mlPrimaryKey mlModelDeployment dataset "
        "dataPlatform dataPlatformInstance dataFlow dataJob dataProcessInstance versionSet "
        "container tag glossaryTerm domain structuredProperty corpuser corpGroup test "
        "service api agentSkill aiAgent document"
    )
    assert set(urns.KINDS) == set(wanted.split())


@pytest.mark.parametrize(
    ("entity_type", "parts", "expected"),
    [
        ("mlModel", (MLFLOW, "abc", "PROD"), f"urn:li:mlModel:({MLFLOW},abc,PROD)"),
        ("mlModelGroup", (MLFLOW, "a,b", "DEV"), f"urn:li:mlModelGroup:({MLFLOW},a%2Cb,DEV)"),
        ("mlFeature", ("t", "100%"), "urn:li:mlFeature:(t,100%25)"),
        ("mlFeatureTable", (MLFLOW, "a\nb"), f"urn:li:mlFeatureTable:({MLFLOW},a%0Ab)"),
        ("mlPrimaryKey", ("t", "k()"), "urn:li:mlPrimaryKey:(t,k%28%29)"),
        ("tag", ("100%, (x)",), "urn:li:tag:100%%2C %28x%29"),
        ("corpuser", ("doe, jane",), "urn:li:corpuser:doe%2C jane"),
        ("versionSet", ("a", "mlModel"), "urn:li:versionSet:(a,mlModel)"),
        (
            "dataJob",
            ("urn:li:dataFlow:(airflow,f,PROD)", "j"),
            "urn:li:dataJob:(urn:li:dataFlow:(airflow,f,PROD),j)",
        ),
    ],
)
def test_a_urn_is_spelled_as_its_kind_asks(
    entity_type: str, parts: tuple[str, ...], expected: str
) -> None:
    assert build(entity_type, *parts) == expected
    assert decoded_parts(expected) == parts


def test_helpers_build_what_their_names_say() -> None:
    assert urns.data_platform("mlflow") == MLFLOW
    assert urns.dataset("hive", "db.t", "PROD") == (
        "urn:li:dataset:(urn:li:dataPlatform:hive,db.t,PROD)"
    )


@pytest.mark.parametrize(
    ("entity_type", "parts", "sentence"),
    [
        ("mlmodel", (MLFLOW, "a", "PROD"), "not an entity type"),
        ("mlModel", (MLFLOW, "a"), "has 3 parts, not 2"),
        ("mlModel", (MLFLOW, "", "PROD"), "empty part"),
        ("mlModel", (MLFLOW, "a", "prod"), "is not an environment"),
        ("mlModel", ("mlflow", "a", "PROD"), "'mlflow' is not a URN"),
        ("mlModel", ("urn:li:dataPlatform:", "a", "PROD"), "is not a URN"),
        ("mlModel", ("urn:li:dataPlatform:(a", "a", "PROD"), "unbalanced parentheses"),
        ("mlModel", ("urn:li:tag:a", "a", "PROD"), "is not a URN of a dataPlatform"),
        ("dataJob", ("urn:li:dataFlow:(a,b)", "j"), "does not have 3 parts"),
        ("tag", ("\ud800",), "a lone surrogate"),
        ("tag", (" x",), None),
        ("tag", ("x ",), "ends with white space"),
        ("tag", ("x\x00",), "ends with white space"),
        ("tag", ("x" * 500,), "more than 512 bytes"),
        ("tag", ("é" * 90,), "more than 512 bytes"),
    ],
)
def test_what_cannot_be_a_urn_is_refused(
    entity_type: str, parts: tuple[str, ...], sentence: str | None
) -> None:
    if sentence is None:
        assert decoded_parts(build(entity_type, *parts)) == parts
        return
    with pytest.raises(InvalidUrnError, match=sentence):
        build(entity_type, *parts)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is not a URN"),
        ("urn:li:mlModel", "is not a URN"),
        ("urn:li:mlModel:", "is not a URN"),
        ("urn:li::x", "is not a URN"),
        ("urn:li:ml/Model:x", "is not a URN"),
        ("URN:li:tag:x", "is not a URN"),
        ("urn:li:corpuser:(x)", "does not have 1 part"),
        ("urn:li:corpuser:a(x)", "reserved character"),
        ("urn:li:corpuser:(x", "unbalanced"),
        ("urn:li:mlFeature:(a)b,(c)", "unbalanced"),
        ("urn:li:mlFeature:(a,b(c))", "reserved character"),
        ("urn:li:mlFeature:(a,b((c))", "unbalanced"),
        ("urn:li:mlFeature:(a,b,c)", "does not have 2 parts"),
        ("urn:li:mlFeature:a", "does not have 2 parts"),
        ("urn:li:mlFeature:(a,)", "empty part"),
        ("urn:li:mlFeature:(a,b\u241f)", "reserved character"),
        ("urn:li:mlFeature:(a,b) ", "unbalanced"),
        ("urn:li:test:x\t", "ends with white space"),
        ("urn:li:anything:x ", "ends with white space"),
        ("urn:li:tag:x\x01", "ends with white space"),
        ("urn:li:tag:x\u3000", "ends with white space"),
        ("urn:li:tag:a,b", "reserved character"),
        ("urn:li:corpuser:doe, jane", "reserved character"),
        ("urn:li:anything:a,b", "reserved character"),
        ("urn:li:anything:a(b)", "reserved character"),
        ("urn:li:anything:a\u241fb", "reserved character"),
        ("urn:li:anything:(a,b(c))", "reserved character"),
        (f"urn:li:tag:{'x' * 600}", "more than 512 bytes"),
        (f"urn:li:tag:{':' * 180}", "more than 512 bytes URL-encoded"),
    ],
)
def test_what_is_no_urn_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(InvalidUrnError, match=sentence):
        check(text)


@pytest.mark.parametrize("text", ["urn:li:mlFeature:(a),b)", "urn:li:mlFeature:(a(,b)"])
def test_a_lone_parenthesis_splits_no_urn(text: str) -> None:
    with pytest.raises(InvalidUrnError, match="unbalanced"):
        raw_parts(text)


def test_a_urn_beyond_the_limit_is_not_taken_apart() -> None:
    name = "x" * (512 - len("urn:li:tag:"))
    assert raw_parts(f"urn:li:tag:{name}") == (name,)
    with pytest.raises(InvalidUrnError, match="more than 512 bytes"):
        raw_parts(f"urn:li:tag:{name}x")


@pytest.mark.parametrize(("length", "whole"), [(512, True), (513, False)])
def test_an_error_names_a_text_of_up_to_the_limit(length: int, *, whole: bool) -> None:
    with pytest.raises(InvalidUrnError) as caught:
        check("x" * length)
    assert (repr("x" * length) in str(caught.value)) is whole


def test_an_error_never_repeats_a_text_of_any_length() -> None:
    with pytest.raises(InvalidUrnError) as caught:
        check("x" * 1_000_000)
    assert len(str(caught.value)) < 300


def test_an_unknown_entity_type_keeps_the_rules_for_all() -> None:
    assert check("urn:li:schemaField:(urn:li:dataset:(a,b,c),d)") == (
        "urn:li:dataset:(a,b,c)",
        "d",
    )
    assert check("urn:li:dataHubIngestionSource:cli-1") == ("cli-1",)
    with pytest.raises(InvalidUrnError, match="known URN shape"):
        decoded_parts("urn:li:dataHubIngestionSource:cli-1")


def test_a_comma_alone_is_tolerated_in_a_reference_only() -> None:
    assert check("urn:li:corpuser:doe, jane", reference=True) == ("doe, jane",)
    with pytest.raises(InvalidUrnError, match="reserved character"):
        check("urn:li:mlFeature:(a,b(c))", reference=True)


def test_parts_are_given_as_they_are_spelled() -> None:
    assert raw_parts("urn:li:mlFeature:(a%2Cb,%25)") == ("a%2Cb", "%25")
    assert decoded_parts("urn:li:mlFeature:(a%2Cb,%25)") == ("a,b", "%")
    platform = "urn:li:dataPlatform:a%2Cb"  # a part that is a URN stays as it is spelled
    assert decoded_parts(f"urn:li:dataset:({platform},x%2Cy,PROD)") == (platform, "x,y", "PROD")


def test_names_of_others_keep_their_percent_signs() -> None:
    text = "urn:li:dataset:(urn:li:dataPlatform:s3,a%20b%2Cc%41,PROD)"
    assert decoded_parts(text)[1] == "a%20b,c%41"
    assert build("dataset", *decoded_parts(text)) == text


@pytest.mark.parametrize(
    ("text", "size"), [("aZ0-_.", 6), (" ", 3), ("~*", 6), (":", 3), ("é", 6), ("🚀", 12)]
)
def test_bytes_are_counted_as_the_stricter_encoder_does(text: str, size: int) -> None:
    assert encoded_bytes(text) == size


def test_the_longest_name_passes_and_one_more_byte_does_not() -> None:
    frame = encoded_bytes("urn:li:mlFeature:(t,)")
    assert encoded_bytes(build("mlFeature", "t", "x" * (512 - frame))) == 512
    with pytest.raises(InvalidUrnError, match="512"):
        build("mlFeature", "t", "x" * (513 - frame))


def test_a_urn_has_500_characters_unless_it_only_refers() -> None:
    frame = len("urn:li:tag:")
    assert len(build("tag", "x" * (500 - frame))) == 500
    with pytest.raises(InvalidUrnError, match="more than 500 characters"):
        build("tag", "x" * (501 - frame))
    long = f"urn:li:tag:{'x' * (501 - frame)}"
    with pytest.raises(InvalidUrnError, match="more than 500 characters"):
        check(long)
    assert check(long, reference=True)


def test_own_kinds_are_the_machine_learning_kinds() -> None:
    assert urns.OWN_KINDS.keys() == {name for name in urns.KINDS if name.startswith("ml")}
    assert all(urns.UrnPart.NAME in roles for roles in urns.KINDS.values())


def test_urns_are_grouped_by_their_type_each_once() -> None:
    urns = ["urn:li:tag:b", "urn:li:test:t", "urn:li:tag:a", "urn:li:tag:b"]
    grouped = {"tag": ["urn:li:tag:b", "urn:li:tag:a"], "test": ["urn:li:test:t"]}
    assert by_entity_type(urns) == grouped
