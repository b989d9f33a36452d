import hashlib
from collections.abc import Callable
from typing import Any

import pydantic
import pytest

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.naming import DATAHUB_TEMPLATES, Name, Naming, Templates
from mlcat_ingest.metadata.urn import check, decoded_parts, encode_own, encoded_bytes

RUN = "0123456789abcdef0123456789abcdef"


def test_a_run_an_experiment_a_registered_model_and_a_version_have_names() -> None:
    naming = Naming()
    platform = "urn:li:dataPlatform:mlflow"
    assert naming.model(RUN) == Name(f"urn:li:mlModel:({platform},{RUN},PROD)", RUN)
    assert naming.group("churn").urn == f"urn:li:mlModelGroup:({platform},churn,PROD)"
    assert naming.registered_group("churn").name == "registered:churn"
    assert naming.version("churn", "3").urn == f"urn:li:mlModel:({platform},churn_3,PROD)"
    assert naming.platform_urn == platform
    assert naming.instance_urn is None


def test_features_are_named_by_their_table_without_platform_and_environment() -> None:
    naming = Naming("feast", "DEV")
    table = naming.feature_table("a.project", "a.view")
    assert table.urn == "urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,a%2Eproject.a.view)"
    assert naming.feature(table, "x,y").urn == "urn:li:mlFeature:(a%2Eproject.a.view,x%2Cy)"


@pytest.mark.parametrize(
    ("instance", "workspace", "prefix"),
    [
        (None, None, ""),
        (None, "default", ""),
        ("", "", ""),
        ("eu", None, "eu."),
        ("eu", "default", "eu."),
        (None, "team", "team."),
        ("eu", "team", "eu.team."),
        ("eu.west", "a.b", "eu%2Ewest.a%2Eb."),
        ("a,b", None, "a%2Cb."),
    ],
)
def test_instance_and_workspace_are_prefixes(
    instance: str | None, workspace: str | None, prefix: str
) -> None:
    naming = Naming(instance=instance, workspace=workspace)
    assert naming.model(RUN).name == prefix + RUN
    assert naming.group("x.y").name == f"{prefix}x.y"
    assert naming.registered_group("x").name == f"{prefix}registered:x"
    assert naming.version("x", "1").name == f"{prefix}x_1"
    assert naming.feature_table("p", "v").name == f"{prefix}p.v"


def test_an_instance_has_a_urn_of_its_own() -> None:
    assert Naming(instance="eu").instance_urn == (
        "urn:li:dataPlatformInstance:(urn:li:dataPlatform:mlflow,eu)"
    )


def test_an_experiment_cannot_pass_for_a_registered_model() -> None:
    naming = Naming(instance="eu")
    assert naming.group("registered:x").name == "eu.registered%3Ax"
    assert naming.group("registered%3Ax").name == "eu.registered%253Ax"
    assert naming.registered_group("x").name == "eu.registered:x"
    assert naming.group("Registered:x").name == "eu.Registered:x"


def test_datahubs_names_keep_the_two_apart_the_other_way_round() -> None:
    naming = Naming(templates=DATAHUB_TEMPLATES)
    assert naming.group("x").name == "experiment:x"
    assert naming.registered_group("x").name == "x"
    assert naming.registered_group("experiment:x").name == "experiment%3Ax"
    assert naming.version("x", "2").name == "x_2"


def test_a_name_shared_with_datahubs_source_is_spelled_as_there() -> None:
    naming = Naming(templates=DATAHUB_TEMPLATES, shared=True)
    assert naming.registered_group("50% off").name == "50% off"
    assert naming.version("50% off", "2").name == "50% off_2"
    assert naming.registered_group("a (b)").name == "a %28b%29"
    assert naming.registered_group("a%2Cb").name == "a%252Cb"
    assert naming.group("50% off").name == "experiment:50%25 off"


def test_process_instances_differ_as_their_models_do() -> None:
    def process(**more: Any) -> str:
        return Naming(templates=DATAHUB_TEMPLATES, **more).process("r")

    own = [process(), process(instance="eu"), process(workspace="a"), process(env="DEV")]
    assert len(set(own)) == 4
    # DataHub's own source reads the default workspace only, and knows no environment of a run.
    assert process(shared=True) == process(shared=True, env="DEV")
    assert process(shared=True) not in own
    assert process(shared=True, workspace="a") == process(workspace="a")


def test_templates_may_put_text_on_both_sides() -> None:
    naming = Naming(
        templates=Templates(
            model="run/{run_id}.x",
            group="e-{experiment}",
            registered_group="r-{name}-m",
            version="v{version}/{name}",
        )
    )
    assert naming.model("a").name == "run/a.x"
    assert naming.group("r-a").name == "e-r-a"
    assert naming.registered_group("e-{a}").name == "r-e-{a}-m"
    assert naming.version("{name}", "1").name == "v1/{name}"


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"model": "{runid}"}, r"naming.model: unknown placeholder \{runid\}; it takes \{run_id\}"),
        ({"model": "run"}, r"naming.model: must contain \{run_id\}"),
        ({"group": "{experiment}{experiment}"}, "once"),
        ({"group": "{experiment"}, "naming.group: expected '}'"),
        ({"group": "{experiment!r}"}, "unknown placeholder"),
        ({"group": "{experiment:>9}"}, "unknown placeholder"),
        ({"group": "{experiment.__class__}"}, "unknown placeholder"),
        ({"group": "{{{experiment}}}"}, "fixed text takes"),
        ({"group": "{experiment},"}, "fixed text takes"),
        ({"group": "é{experiment}"}, "fixed text takes"),
        ({"registered_group": "{name}"}, "begin with the same text"),
        ({"group": "registered:{experiment}-x"}, "begin with the same text"),
        ({"version": "{name}"}, r"must contain \{name\} and \{version\}"),
        ({"version": "{name}{version}"}, "text between them"),
        ({"version": "{name}1{version}"}, "text between them"),
    ],
)
def test_templates_that_cannot_name_things_are_refused(
    changed: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        Templates(**changed)


def test_pydantic_shows_what_is_wrong_with_a_template() -> None:
    with pytest.raises(pydantic.ValidationError, match="unknown placeholder"):
        pydantic.TypeAdapter(Templates).validate_python({"model": "{x}"})


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"env": "prod"}, "is not an environment"),
        ({"platform": ""}, "empty part"),
        ({"platform": "x" * 400}, "too long"),
        ({"instance": "x" * 300}, "too long"),
        ({"workspace": "é" * 60}, "too long"),
        ({"workspace": "\ud800"}, "a lone surrogate"),
    ],
)
def test_a_naming_that_leaves_no_room_is_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Naming(**wrong)


@pytest.mark.parametrize("name", ["", "\udc00"])
def test_a_name_that_cannot_stand_in_a_urn_is_refused(name: str) -> None:
    naming = Naming()
    table = naming.feature_table("p", "v")
    calls: list[Callable[[], Name]] = [
        lambda: naming.model(name),
        lambda: naming.group(name),
        lambda: naming.registered_group(name),
        lambda: naming.version(name, "1"),
        lambda: naming.feature_table("p", name),
        lambda: naming.feature_table(name, "v"),
        lambda: naming.feature(table, name),
    ]
    for call in calls:
        with pytest.raises(InvalidUrnError):
            call()


def test_a_long_name_keeps_its_beginning_and_a_digest_of_all_of_it() -> None:
    full = "模型," * 100
    name = Naming().group(full)
    kept, _, digest = decoded_parts(name.urn)[1].partition("~")
    assert full.startswith(kept)
    assert digest == hashlib.sha256(full.encode()).hexdigest()[:16]
    assert name.full_name == full
    assert name.name == check(name.urn)[1]
    one_more = encoded_bytes(name.urn) + encoded_bytes(encode_own(full[len(kept)]))
    assert encoded_bytes(name.urn) <= 512 < one_more


def test_a_long_name_is_cut_at_the_same_place_in_every_release() -> None:
    assert Naming().group(f"{'x' * 600}a").name.endswith("x~b51d069b2f09c3d3")


def test_a_long_name_holds_its_instance_in_the_digest() -> None:
    full = "x" * 600
    name = Naming(instance="eu.west").group(full)
    assert name.full_name == f"eu.west.{full}"
    assert name.name.startswith("eu%2Ewest.xxx")
    assert name.name.endswith(hashlib.sha256(name.full_name.encode()).hexdigest()[:16])


@pytest.mark.parametrize("character", ["\u2028", "\x85", "\x00", "%", "é", "🚀", "~", " "])
def test_a_long_name_is_never_cut_inside_a_character(character: str) -> None:
    for lead in range(6):
        full = "x" * lead + character * 400
        name = Naming().model(full)
        kept = decoded_parts(name.urn)[1].rpartition("~")[0]
        assert full.startswith(kept)
        assert encoded_bytes(name.urn) <= 512


def test_the_longest_name_is_kept_whole() -> None:
    room = 512 - encoded_bytes(Naming().model("x").urn) + 1
    assert Naming().model("x" * room).full_name is None
    assert Naming().model("x" * (room + 1)).full_name == "x" * (room + 1)


def test_long_names_of_an_experiment_and_a_registered_model_stay_apart() -> None:
    naming = Naming()
    long = "x" * 600
    assert naming.group(f"registered:{long}").urn != naming.registered_group(long).urn


def test_a_table_with_a_long_name_leaves_room_for_its_features() -> None:
    naming = Naming("feast")
    table = naming.feature_table("p", "v" * 600)
    feature = naming.feature(table, "f" * 600)
    assert check(feature.urn)[0] == table.name == check(table.urn)[1]
    assert (table.full_name, feature.full_name) == (f"p.{'v' * 600}", "f" * 600)
    assert naming.feature(table, "f" * 200).full_name is None
