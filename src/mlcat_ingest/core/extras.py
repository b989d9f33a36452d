"""The extras of the distribution: which modules each brings, and the check that they are there.

A module counts whatever distribution brought it.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from mlcat_ingest.errors import MissingExtraError

_CATALOG: Final = (
    *("graphql", "jinja2", "markdown_it", "nh3", "prometheus_client", "re2", "starlette"),
    "uvicorn",
)
_FEAST: Final = ("google.protobuf", "grpc")

MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "aws": ("boto3",),
    "azure": ("adlfs", "fsspec"),
    "catalog": _CATALOG,
    "demo": (*_CATALOG, *_FEAST),
    "demo-train": (*_CATALOG, *_FEAST, "mlflow", "sklearn"),
    "feast": _FEAST,
    "gcs": ("fsspec", "gcsfs"),
    "mlflow": ("mlflow",),
    "postgres": ("psycopg",),
    "tests": ("re2",),
}
"""The modules of each extra. Airflow and DataHub are not among them: they import us."""


def package_version() -> str:
    """Return the version of this distribution as it is installed."""
    from importlib.metadata import version

    return version("mlcat-ingest")


def require_extra(extra: str, what: str) -> None:
    """Check that the modules of an extra are installed, for `what` needs them; import none.

    Raises:
        MissingExtraError: one of them is not there.
    """
    if not all(map(_is_installed, MODULES[extra])):
        raise MissingExtraError(what, extra)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # nor is the package that it would be in
        return False
