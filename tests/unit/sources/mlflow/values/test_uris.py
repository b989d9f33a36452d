"""Links to MLflow's pages and to the code of a run."""

from importlib.metadata import EntryPoint

import pytest

from mlcat_ingest.sources.mlflow.mapping.model import NO_SOURCE_CODE, _commit_url, _source_code
from mlcat_ingest.sources.mlflow.values import uris
from mlcat_ingest.sources.mlflow.values.uris import ui_links, with_known_scheme

BRICKS = "https://acme.cloud.databricks.com"


def test_half_a_surrogate_pair_is_no_reason_to_fail() -> None:
    links = ui_links("http://m")
    assert links.experiment("\ud800") == "http://m/#/experiments/%3F"
    assert links.run("\ud800", "\ud800") == "http://m/#/experiments/%3F/runs/%3F"
    assert links.registered_model("\ud800") == "http://m/#/models/%3F"


def test_pages_of_an_open_source_server() -> None:
    links = ui_links("http://mlflow:5000/base/")
    assert links.experiment("1") == "http://mlflow:5000/base/#/experiments/1"
    assert links.run("1", "ab") == "http://mlflow:5000/base/#/experiments/1/runs/ab"
    assert links.run("a/b", "é?") == ("http://mlflow:5000/base/#/experiments/a%2Fb/runs/%C3%A9%3F")
    assert links.registered_model("a b/c") == "http://mlflow:5000/base/#/models/a%20b%2Fc"
    assert links.version("m", "3") == "http://mlflow:5000/base/#/models/m/versions/3"
    assert links.registered_model("\ud83d") == "http://mlflow:5000/base/#/models/%3F"


def test_pages_of_a_workspace() -> None:
    links = ui_links("http://mlflow:5000", workspace="team a")
    assert links.run("1", "r") == "http://mlflow:5000/#/experiments/1/runs/r?workspace=team%20a"


def test_pages_of_databricks() -> None:
    links = ui_links("databricks://profile", ui_url=f"{BRICKS}/?o=42")
    assert links.run("1", "r") == f"{BRICKS}/ml/experiments/1/runs/r?o=42"
    assert links.registered_model("fraud") == f"{BRICKS}/ml/models/fraud?o=42"
    assert links.version("a.b.c", "1") == f"{BRICKS}/explore/data/models/a/b/c/version/1?o=42"
    assert ui_links(BRICKS).experiment("1") == f"{BRICKS}/ml/experiments/1"
    assert (
        ui_links("http://mlflow/").version("a.b.c", "1")
        == "http://mlflow/#/models/a.b.c/versions/1"
    )


@pytest.mark.parametrize(
    "uri", ["sqlite:///mlflow.db", "/tmp/mlruns", "databricks-uc", "http:///x"]
)
def test_no_links_where_no_page_is_known(uri: str) -> None:
    links = ui_links(uri)
    found = {
        links.experiment("1"),
        links.run("1", "r"),
        links.registered_model("a.b.c"),
        links.registered_model("m"),
        links.version("a.b.c", "1"),
    }
    assert found == {None}


def test_credentials_of_an_address_are_left_out() -> None:
    assert (
        ui_links("https://ann:s3cret@mlflow/").experiment("1") == "https://mlflow/#/experiments/1"
    )


@pytest.mark.parametrize(
    ("repository", "url"),
    [
        ("https://github.com/acme/x.git", "https://github.com/acme/x/tree/4c1d"),
        ("https://github.com/acme/x/", "https://github.com/acme/x/tree/4c1d"),
        ("git+https://github.com/acme/x#sub", "https://github.com/acme/x/tree/4c1d"),
        ("http://git.local:8080/acme/x", "http://git.local:8080/acme/x/tree/4c1d"),
        ("git@github.com:acme/x.git", "https://github.com/acme/x/tree/4c1d"),
        ("ssh://git@gitlab.com:22/acme/x.git", "https://gitlab.com/acme/x/-/tree/4c1d"),
        ("git://example.com/x", "https://example.com/x/tree/4c1d"),
        ("https://tok:en@bitbucket.org/acme/x", "https://bitbucket.org/acme/x/src/4c1d"),
        (
            "https://acme.visualstudio.com/_git/x",
            "https://acme.visualstudio.com/_git/x?version=GC4c1d",
        ),
        ("/home/ann/project", None),
        ("train.py", None),
        ("C:\\work\\train.py", None),
        ("https://github.com/", None),
        ("https://github.com//", None),
        ("https://github.com/a b", None),
        ("javascript:alert(1)", None),
        ("", None),
    ],
)
def test_a_repository_has_a_page_at_a_commit(repository: str, url: str | None) -> None:
    assert _commit_url(repository, "4c1d") == url


def test_no_source_code_without_a_plausible_commit() -> None:
    repository = {"mlflow.source.git.repoURL": "https://github.com/acme/x"}
    assert _source_code(repository) == NO_SOURCE_CODE
    assert _source_code({**repository, "mlflow.source.git.commit": "../.."}) == NO_SOURCE_CODE
    assert _source_code({"mlflow.source.git.commit": "4c1d0f7"}) == NO_SOURCE_CODE


@pytest.mark.parametrize(
    ("uri", "package"),
    [
        ("arn:aws:sagemaker:eu-west-1:1:mlflow-tracking-server/a", "sagemaker-mlflow"),
        ("azureml://eastus.api.azureml.ms/mlflow/v1.0", "azureml-mlflow"),
    ],
)
def test_an_address_of_a_plugin_needs_its_package(
    monkeypatch: pytest.MonkeyPatch, uri: str, package: str
) -> None:
    with pytest.raises(ValueError, match=rf"not installed: pip install {package}$"):
        with_known_scheme(uri)
    plugin = EntryPoint(uri.partition(":")[0], "its:Store", "mlflow.tracking_store")
    monkeypatch.setattr(uris, "entry_points", lambda group: [plugin] * group.count("tracking"))
    assert with_known_scheme(uri) == uri
