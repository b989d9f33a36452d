"""Each quantity of a page is that of the constant behind it, or a test elsewhere asserts it."""

import re
from pathlib import Path
from typing import Final

import pytest
from pydantic import BaseModel

from mlcat_ingest.airflow.reports import GROUP_CHARS
from mlcat_ingest.catalog import limits
from mlcat_ingest.catalog.store import references
from mlcat_ingest.catalog.web.graphql.lineage import MAX_HOPS as LINEAGE_HOPS
from mlcat_ingest.cli import plan
from mlcat_ingest.client import search
from mlcat_ingest.client.probe_entities import INDEX_PATIENCE_S
from mlcat_ingest.hooks import spool
from mlcat_ingest.metadata import naming
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import MAX_URN_BYTES
from mlcat_ingest.metadata_tests import definition, properties
from mlcat_ingest.net import reachability
from mlcat_ingest.pipeline.merge import applied
from mlcat_ingest.pipeline.merge import limits as datahub
from mlcat_ingest.pipeline.read import lineage
from mlcat_ingest.pipeline.removal.soft_delete import FLOOR
from mlcat_ingest.pipeline.write import delivery
from mlcat_ingest.recipe import loader
from mlcat_ingest.recipe.model import LimitsSpec
from mlcat_ingest.sources.definitions.tables import FEATURE_TYPES
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.mapping.properties import SHOWN_CHARS, SHOWN_TAGS
from mlcat_ingest.sources.mlflow.read.database.access import IDS_A_PAGE
from mlcat_ingest.sources.mlflow.read.databricks_reader import DatabricksReader
from mlcat_ingest.sources.mlflow.read.files import MAX_BYTES
from mlcat_ingest.sources.mlflow.read.reader import IDS_A_LISTING
from mlcat_ingest.sources.mlflow.select.models import EXTERNAL_MODELS
from mlcat_ingest.sources.mlflow.values.joined import LIMITS
from mlcat_ingest.sources.sagemaker.api import PAGE
from mlcat_ingest.testing.gms.profile import GmsProfile
from mlcat_ingest.workflows import check, shard, verify_result, verify_sample
from mlcat_ingest.workflows.plan_render import CHANGES_SHOWN
from support.prose import sentences

ROOT = Path(__file__).parents[2]
OPERATORS = (ROOT / "src" / "mlcat_ingest" / "airflow" / "operator.py").read_text()
(RETRY_DELAY_S,) = re.findall(r'"MLCAT_RETRY_DELAY_S", "(\d+)"', OPERATORS)  # it needs Airflow
KIB, MIB, GIB, DAY_S = 1024, 1024**2, 1024**3, 86_400


def default(model: type[BaseModel], name: str) -> float:
    """Return the default of a recipe's key."""
    value: float = model.model_fields[name].default
    return value


QUANTITIES: Final[dict[str, dict[str, tuple[float | str, ...]]]] = {
    "../README.md": {"in pages of up to {}": (default(MlflowConfig, "page_size"),)},
    "explanation/evaluation.md": {
        "in batches of {} to `POST": (MAX_REQUEST_ITEMS,),
        "{} entities a request, and follows at most {} URNs": (
            MAX_REQUEST_ITEMS,
            {3: "three"}[properties.MAX_HOPS],
        ),
    },
    "explanation/identity.md": {
        "at most {} bytes, URL-encoded": (MAX_URN_BYTES,),
        "table's name has at most {} bytes": (naming._TABLE_BYTES,),
    },
    "explanation/in-datahub.md": {
        "up to {} tags of fewer than {} characters": (SHOWN_TAGS, SHOWN_CHARS),
    },
    "explanation/merging.md": {
        "the first {} custom properties": (datahub.MAX_PROPERTIES,),
        "more than {} bytes": (datahub.MAX_TEXT_BYTES,),
        "with {} characters for each entry": (applied._CHARS,),
        "at most {} attempts": (delivery.ROUNDS,),
        "at most {} seconds": (delivery.MAX_PAUSE_S,),
        "more than {} entities and more than `limits.max_removed_ratio` ({})": (
            {10: "ten"}[FLOOR],
            default(LimitsSpec, "max_removed_ratio"),
        ),
        "DataHub keeps {}": (GmsProfile().kept_versions,),
    },
    "how-to/catalog-for-a-team.md": {
        "{} hours": (limits.SESSION_SECONDS / 3600,),
        "has up to {} MB": (limits.DEFAULT_LIMITS.body_bytes / 1e6,),
        "at most {} requests at the same time": (limits.DEFAULT_LIMITS.requests_at_once,),
    },
    "how-to/operations.md": {"every hour adds {} entities a year": (24 * 365,)},
    "how-to/plan.md": {
        "the first {} entities, and {} entries of each field": (plan.SHOWN, CHANGES_SHOWN),
        "`Consumes`, {} features a request": (search._AT_ONCE,),
        "for each {} entities and a read for each {}.": (search._PAGE, MAX_REQUEST_ITEMS),
    },
    "reference/airflow.md": {
        "{}, {} runs, none |": (shard.MOST, shard.LEAST_SIZE),
        "room for {} characters": (GROUP_CHARS,),
        "{} seconds before each of": (float(RETRY_DELAY_S),),
    },
    "reference/catalog.md": {
        "lasts {} hours": (limits.SESSION_SECONDS / 3600,),
        "{} different wrong tokens in a minute": (limits.WRONG_TOKENS,),
        "transactions of {} aspects": (references._AT_ONCE,),
    },
    "reference/check.md": {
        "after {} seconds, a single request after {}, and a connection after {}.": (
            check.PATIENCE_S,
            check._MOST["timeout_s"],
            check._MOST["connect_timeout_s"],
        ),
        "within {} seconds of this": (reachability.MAX_SKEW_S,),
        "reads {} entities a request": (MAX_REQUEST_ITEMS,),
        "of the first {} entities": (check.SAMPLE,),
        "waits for it for {} seconds": (INDEX_PATIENCE_S,),
    },
    "reference/connections.md": {
        "at most {} experiments or {} logged models": (
            DatabricksReader.experiments_a_listing,
            DatabricksReader.logged_models_page,
        ),
    },
    "reference/external-models.md": {"the {} newest ones": (EXTERNAL_MODELS,)},
    "reference/feature-stores.md": {
        "`max_bytes` ({} GiB)": (default(FeastConfig, "max_bytes") / GIB,),
        "catalog's {} data types": (len(FEATURE_TYPES),),
        "each {} groups and each {} features": (PAGE, PAGE),
        "request for each {} features": (PAGE,),
    },
    "reference/features-of-runs.md": {
        "looked up once, {} in a request": (MAX_REQUEST_ITEMS,),
        "files of more than {} MiB": (MAX_BYTES / MIB,),
        "The first {} inputs": (LIMITS.columns,),
    },
    "reference/graphql.md": {"at most {} hops": (LINEAGE_HOPS,)},
    "reference/hooks.md": {
        "at most {} minutes": ({10: "ten"}[int(spool._LONGEST_PAUSE_S / 60)],),
        "at most {} events, and none older than {} days": (
            spool.MAX_EVENTS,
            spool.MAX_AGE_S / DAY_S,
        ),
    },
    "reference/lineage.md": {
        "{} in a request, and at most {}.": (MAX_REQUEST_ITEMS, lineage.MOST),
        "the {} most used missing": ({10: "ten"}[lineage.EXAMPLES],),
    },
    "reference/metadata-tests.md": {
        "at most {} predicates, nested at most {} deep, {} regular expressions and {} KiB": (
            definition.MAX_PREDICATES,
            definition.MAX_DEPTH,
            definition.MAX_PATTERNS,
            definition.MAX_DEFINITION_BYTES / KIB,
        ),
    },
    "reference/mlflow-database.md": {"pages of {} runs": (IDS_A_PAGE,)},
    "reference/recipe.md": {"file of at most {} MiB": (loader.MAX_BYTES / MIB,)},
    "reference/verify.md": {
        "batches of {} entities": (MAX_REQUEST_ITEMS,),
        "the first {} of each kind": (verify_result.SHOWN,),
        "models of {} versions at a time": (IDS_A_LISTING,),
        "into {} equal intervals": (verify_sample._WINDOWS,),
        "costs about {} requests": (2 * verify_sample._WINDOWS,),
        "for each {} entities": (MAX_REQUEST_ITEMS,),
    },
}
"""Pieces of a page's text, and the constants that its quantities are."""

ASSERTED: Final = {
    "../README.md": {
        "13 requests": "tests/integration/main_job/test_thousand_runs.py",
        "[0-9]+ MiB": "tests/benchmarks/bench_install.py",
    },
    "reference/check.md": {
        "5,000 characters|512 bytes|22 versions|16 MB|32,766 bytes": "tests/docs/test_check_page.py"
    },
    "reference/features-of-runs.md": {"4,990 characters": "tests/unit/links/test_feast_runs.py"},
    "reference/performance.md": {".*": "tests/docs/test_performance_page.py"},
    # Docstrings stand beside the code that they are about.
    "reference/python-api.md": {".*": "tests/docs/test_python_api.py"},
    "reference/verify.md": {"8,000 characters": "tests/docs/test_verify_page.py"},
}
"""Quantities without a constant here, and the test that asserts or prints each."""

UNITS = r"bytes|[KMG]i?B|characters|seconds|minutes|hours|days|entities|runs|events|requests"
QUANTITY = re.compile(rf"\d[\d,.]*(?<=\d) (?:{UNITS}|objects|versions|aspects|features|URNs)\b")
PAGES = [
    "../README.md",
    *(page.relative_to(ROOT / "docs").as_posix() for page in sorted((ROOT / "docs").rglob("*.md"))),
]


def pieces(page: str) -> list[str]:
    """Return the pieces of a page's text, with the quantities that they have to have."""
    return [
        piece.format(*(one if isinstance(one, str) else f"{one:,g}" for one in values))
        for piece, values in QUANTITIES.get(page, {}).items()
    ]


@pytest.mark.parametrize("page", QUANTITIES)
def test_quantities_are_those_of_the_code(page: str) -> None:
    text = " ".join((ROOT / "docs" / page).read_text().split())
    assert [piece for piece in pieces(page) if piece not in text] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_quantity_with_a_unit_is_held(page: str) -> None:
    held = " ".join(pieces(page))
    asserted = "|".join(ASSERTED.get(page, {})) or "(?!)"
    found = [
        quantity
        for sentence in sentences((ROOT / "docs" / page).read_text())
        for quantity in QUANTITY.findall(re.sub(r"`[^`]*`", "", sentence))
    ]
    assert [one for one in found if one not in held and not re.fullmatch(asserted, one)] == []


def test_the_tests_that_hold_the_other_quantities_exist() -> None:
    named = {ROOT / test for tests in ASSERTED.values() for test in tests.values()}
    assert {str(test) for test in named if not test.exists()} == set()
