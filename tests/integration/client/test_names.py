"""Names in place of URNs, on the embedded catalog and on a DataHub server."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.errors import CatalogRequestError, InvalidUrnError, MlcatError, RecipeError
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.urn import encode_own
from mlcat_ingest.workflows.names import KINDS, Kind, urn_of
from support.catalog_server import running_catalog
from support.fakes import group_urn, model_urn
from support.gms import V1_7, running_gms

CATALOGS: dict[str, Callable[[Path], AbstractContextManager[Any]]] = {
    "embedded": running_catalog,
    "gms": partial(running_gms, profile=V1_7),
}
ODD = 'a "b" (c)*, 50% é'
SPELLED = encode_own(ODD)


def group(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "customProperties": {f"mlflow.{kind}": name, "mlcat.source": "mlflow:0"}}


def run(name: str, run_id: str) -> dict[str, Any]:
    properties = {"mlflow.run_id": run_id, "mlcat.source": "mlflow:0"}
    return {"name": name, "customProperties": properties}


def version(model: str, number: str, *groups: str) -> dict[str, Any]:
    properties = {"mlflow.registered_model": model, "mlflow.run_id": "r1"}
    return {"name": f"{model}_{number}", "customProperties": properties, "groups": list(groups)}


GROUPS = {
    "registered:churn": group("churn", "registered_model"),
    "registered:churn_2": group("churn_2", "registered_model"),
    "eu.registered:fraud": group("fraud", "registered_model"),
    "eu.fraud": group("fraud", "experiment_id"),
    "Churn": group("Churn", "experiment_id"),
    f"registered:{SPELLED}": group(ODD, "registered_model"),
}
MODELS = {
    "r1": run("forest", "r1"),
    "eu.r2": run("tree", "r2"),
    "r3": run("tree", "r3"),
    "r4": run("churn:champion", "r4"),
    "other": {"name": "mine"},
    "churn_3": version("churn", "3", group_urn("registered:churn")),
    "churn_10": version("churn", "10", group_urn("registered:churn")),
    "churn_2_3": version("churn_2", "3", group_urn("registered:churn_2")),
    "eu.fraud_1": version("fraud", "1", group_urn("eu.registered:fraud")),
    f"{SPELLED}_1": version(ODD, "1"),
}
VERSIONS = {
    "churn_3": ("3", ["prod"]),
    "churn_10": ("10", ["champion", "next"]),
    "churn_2_3": ("3", ["next"]),
    "eu.fraud_1": ("1", ["champion", "1"]),
    f"{SPELLED}_1": ("1", ["champion"]),
}


@pytest.fixture(scope="module", params=CATALOGS)
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CatalogClient]:
    folder = tmp_path_factory.mktemp("catalog")
    with (
        CATALOGS[request.param](folder / "catalog.db") as running,
        CatalogClient(running.url, "") as client,
    ):
        proposals = [
            Proposal(group_urn(name), "mlModelGroupProperties", value)
            for name, value in GROUPS.items()
        ]
        proposals += [
            Proposal(model_urn(name), "mlModelProperties", value) for name, value in MODELS.items()
        ]
        for name, (number, aliases) in VERSIONS.items():
            value = {
                "versionSet": f"urn:li:versionSet:({len(name)}{name[:1]},mlModel)",
                "version": {"versionTag": number},
                "sortId": number.zfill(10),
                "aliases": [{"versionTag": alias} for alias in aliases],
            }
            proposals.append(Proposal(model_urn(name), "versionProperties", value))
        removed = [group_urn("removed"), model_urn("gone")]
        proposals += [Proposal(urn, "status", {"removed": True}) for urn in removed]
        assert client.write(proposals) == []
        yield client


@pytest.mark.parametrize(
    ("text", "kinds", "urn"),
    [
        (group_urn("not there"), KINDS, group_urn("not there")),
        ("churn", KINDS, group_urn("registered:churn")),
        ("registered:churn", KINDS, group_urn("registered:churn")),
        ("Churn", KINDS, group_urn("Churn")),
        ("fraud", ["registered model"], group_urn("eu.registered:fraud")),
        ("fraud", ["experiment"], group_urn("eu.fraud")),
        ("eu.fraud", KINDS, group_urn("eu.fraud")),
        ("eu.registered:fraud", KINDS, group_urn("eu.registered:fraud")),
        ("fraud@1", KINDS, model_urn("eu.fraud_1")),
        ("eu.registered:fraud:champion", KINDS, model_urn("eu.fraud_1")),
        ("churn@3", KINDS, model_urn("churn_3")),
        ("churn:10", KINDS, model_urn("churn_10")),
        ("churn_10", KINDS, model_urn("churn_10")),
        ("churn@next", KINDS, model_urn("churn_10")),
        ("churn_2:next", KINDS, model_urn("churn_2_3")),
        ("churn:champion", ["version"], model_urn("churn_10")),
        ("forest", KINDS, model_urn("r1")),
        ("r1", KINDS, model_urn("r1")),
        ("r2", ["run"], model_urn("eu.r2")),
        ("mine", ["model"], model_urn("other")),
        (ODD, KINDS, group_urn(f"registered:{SPELLED}")),
        (f"{ODD}@champion", KINDS, model_urn(f"{SPELLED}_1")),
    ],
)
def test_a_name_of_one_entity(
    client: CatalogClient, text: str, kinds: list[Kind], urn: str
) -> None:
    assert urn_of(client, text, kinds) == urn


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("chrun", CatalogRequestError, r"no reg.* model named 'chrun' \(did you mean [Cc]"),
        ("churm@3", CatalogRequestError, "did you mean [Cc]hurn@3"),
        ("churn@11", CatalogRequestError, "no version or alias '11' of 'churn'"),
        ("churn:", CatalogRequestError, "named 'churn:'"),
        ("FOREST", CatalogRequestError, "named 'FOREST'"),
        ("gone", CatalogRequestError, "named 'gone'"),
        ("*", CatalogRequestError, "named"),
        ("fraud", RecipeError, r"(?s)2 entities .* URNs\n.*fraud,PROD\) fraud .*, experiment"),
        ("tree", RecipeError, r"(?s)eu\.r2,PROD\).*r3,PROD\)"),
        ("churn:champion", RecipeError, r"(?s)r4,PROD\).*churn_10,PROD\)"),
        ("urn:li:mlModel", InvalidUrnError, "not a URN"),
    ],
)
def test_a_name_of_none_or_of_several(
    client: CatalogClient, text: str, error: type[MlcatError], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        urn_of(client, text)
    assert type(raised.value) is error


@pytest.mark.parametrize(
    ("text", "kinds", "hint"),
    [
        ("Churn", ["version", "run"], "of kind experiment; name a run of it"),
        ("Churn", ["registered model"], "it is the name of a group, of kind experiment"),
        ("churn@3", ["registered model"], "did you mean churn?"),
        ("Churn@3", ["version"], "did you mean churn@3?"),
    ],
)
def test_the_cure_fits_what_is_asked_for(
    client: CatalogClient, text: str, kinds: list[Kind], hint: str
) -> None:
    with pytest.raises(CatalogRequestError, match=f"named {text!r}") as raised:
        urn_of(client, text, kinds)
    assert str(raised.value.hint).endswith(hint)


def test_commands_take_names(client: CatalogClient, capfd: pytest.CaptureFixture[str]) -> None:
    for words, code, text in (
        (["get", "churn@3", "versionProperties"], 0, '"0000000003"'),
        (["explain", "churn:next"], 0, f"{model_urn('churn_10')} churn_10 (registered:churn)"),
        (["explain", "fraud"], 2, "give one of the URNs"),
        (["explain", "no such"], 1, "the catalog has no"),
    ):
        assert call([*words, "--server", client.server, "--token", ""]) == code
        out, err = capfd.readouterr()
        assert text in (err if code else out)
