"""Laws of dataset names: applied again nothing changes, and all spellings of a place are one."""

import string

from hypothesis import assume, example, given
from hypothesis import strategies as st

from mlcat_ingest.metadata.urn import check
from mlcat_ingest.sources.datasets import FOLDING, LEVELS, Datasets, normalise, place_of_uri
from mlcat_ingest.sources.mlflow.mapping.datasets import place_of
from support.names import names

PATHS = ("s3", "gcs", "abs", "delta-lake", "file", "dbfs", "hdfs", "databricks")
platforms = st.sampled_from([*PATHS, *LEVELS, "http", "huggingface", "kaggle", "acme"])

words = st.text(string.ascii_letters + string.digits + "_-.", min_size=1, max_size=8).filter(
    lambda word: word.strip(".") and not word.startswith(("part-", "_delta_log", "_temporary"))
)
inside = st.sampled_from(
    ["dt=2024-01-01", "part-00000.parquet", "*.parquet", "_delta_log", "year=1/month=2", "{a,b}"]
)
paths = st.lists(st.one_of(words, inside, st.just("")), min_size=1, max_size=6).map("/".join)
tables = st.lists(
    st.one_of(words, st.sampled_from(["e_20240101", "e_*", "e_20240101_20240102", "20240101"])),
    min_size=1,
    max_size=3,
).map(".".join)


@given(platform=platforms, name=st.one_of(paths, tables, names), cut=st.booleans())
@example(platform="s3", name="b/part-0/part-1/dt=1", cut=True)
@example(platform="s3", name="0/part-00000.parquet//dt=2024-01-01", cut=True)
@example(platform="bigquery", name="p.d.e_**", cut=True)
@example(platform="file", name="./", cut=True)
def test_normalising_again_changes_nothing(*, platform: str, name: str, cut: bool) -> None:
    once = normalise(platform, name, cut=cut)
    again = normalise(platform, once.name, cut=cut)
    assert (again.platform, again.name, again.part) == (platform, once.name, "")


def named(uri: str) -> tuple[str, str] | None:
    place = place_of_uri(uri)
    return None if place is None else normalise(*place)[:2]


@given(bucket=words, path=st.lists(words, min_size=1, max_size=4), below=inside)
def test_every_spelling_of_a_folder_is_one_dataset(
    bucket: str, path: list[str], below: str
) -> None:
    key = "/".join(path)
    spellings = {
        "s3": [f"{scheme}://{bucket}/{key}" for scheme in ("s3", "S3", "s3a", "s3n")],
        "gcs": [f"{scheme}://{bucket}/{key}" for scheme in ("gs", "gcs")],
        "abs": [
            f"abfss://{bucket}@acme.dfs.core.windows.net/{key}",
            f"wasbs://{bucket}@acme.blob.core.windows.net/{key}",
            f"https://acme.blob.core.windows.net/{bucket}/{key}",
        ],
        "dbfs": [f"dbfs:/{bucket}/{key}", f"/dbfs/{bucket}/{key}", f"dbfs:///{bucket}/{key}"],
        "file": [f"/{bucket}/{key}", f"file:///{bucket}/{key}", f"file:/{bucket}/{key}"],
        "hdfs": [f"hdfs:///{bucket}/{key}", f"hdfs://namenode:8020/{bucket}/{key}"],
    }
    assume(bucket not in {"dbfs", "Volumes"})
    for platform, roots in spellings.items():
        found = {
            named(spelling) for root in roots for spelling in (root, f"{root}/", f"{root}/{below}")
        }
        lead = "/" if platform in {"dbfs", "hdfs"} else ""
        expected = normalise(platform, f"{lead}{bucket}/{key}")[:2]
        assert found == {expected}


@given(parts=st.lists(st.text(string.ascii_letters, min_size=1), min_size=3, max_size=3))
def test_the_case_of_a_table_matters_where_the_platform_keeps_it(parts: list[str]) -> None:
    table = ".".join(parts)
    for platform in LEVELS:
        upper, lower = (normalise(platform, spelled) for spelled in (table.upper(), table.lower()))
        assert (upper == lower) == (FOLDING.get(platform) in {"all", "capitals"})


@given(source_type=st.sampled_from(["s3", "local", "delta_table", "sql", "acme"]), source=names)
def test_whatever_was_logged_has_a_sound_urn_or_none(source_type: str, source: str) -> None:
    place = place_of(source_type, source)
    if place is not None:
        datasets = Datasets()
        urn = datasets.urn(datasets.resolve(*place), "PROD")
        assert urn is None or check(urn)
