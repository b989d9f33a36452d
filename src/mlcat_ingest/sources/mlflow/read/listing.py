"""Queries of MLflow's listings, for every reader alike: page sizes, order, filters, page tokens."""

import base64
import binascii
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Final, TypeVar

from mlcat_ingest.core.paging import ListingPage, RecentIds, chunks, follow
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import ProtocolMismatchError, RecipeError
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read import decode
from mlcat_ingest.sources.mlflow.read.assets import prompts
from mlcat_ingest.sources.mlflow.read.decode import IDS, Aliases, Json, Refusals, is_prompt
from mlcat_ingest.sources.mlflow.read.reader import (
    ALL_MODELS,
    IDS_A_LISTING,
    SAFE_ID,
    ModelFilter,
    RunFilter,
)
from mlcat_ingest.sources.mlflow.values.assets import PROMPT, Asset
from mlcat_ingest.sources.mlflow.values.joined import (
    EXPERIMENT,
    LOGGED_MODEL,
    REGISTERED,
    RUN,
    VERSION,
)
from mlcat_ingest.sources.mlflow.values.records import (
    EXTERNAL_TAG,
    PROMPT_TAG,
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
)

ItemT = TypeVar("ItemT")

EXPERIMENTS_A_LISTING: Final = 2_000
"""Experiments named in one listing. MLflow puts them into one SQL statement, and of the databases
it runs on, SQL Server takes the fewest parameters: 2,100."""

EXPERIMENTS_PAGE: Final = 1_000
MODELS_PAGE: Final = 1_000
"""The most that MLflow gives in a page of registered models."""
VERSIONS_PAGE: Final = 10_000
FIRST_RUNS: Final = 50
"""Runs in the first page of a listing, which is asked for before it is known what a run takes."""
FIRST_SLICE: Final = 25
"""As many by SQL, where a further statement costs less than a further request."""
RUNS_A_SLICE: Final = 100
"""Runs of a page that are made records at a time: few, since records wait between all stages."""
PAGE_BYTES: Final = 6 * 1024 * 1024
SLICE_BYTES: Final = 2 * 1024 * 1024
"""Sizes of a page and a slice of large runs; 500 of 20 parameters and 20 metrics are 3 MiB."""
ENTRIES_A_PAGE: Final = 40_000
ENTRIES_A_SLICE: Final = 10_000
"""The same in parameters, metrics and tags, where there are no bytes to count."""
LOGGED_MODELS_PAGE: Final = 1_000
# A total order that edits do not change: the server's own would lose edited versions.
_VERSIONS: Final = {"max_results": VERSIONS_PAGE, "order_by": ["name ASC", "version_number ASC"]}

LISTINGS: Final[Mapping[str, tuple[str, Callable[..., Any]]]] = {
    "experiments": (EXPERIMENT, decode.experiment),
    "runs": (RUN, decode.run),
    "registered-models": (REGISTERED, decode.registered_model),
    "model-versions": (VERSION, decode.model_version),
    "logged-models": (LOGGED_MODEL, decode.logged_model),
}
"""The kind of the records of each listing, and the function that makes one of an item's JSON."""

OF_REGISTRY: Final = frozenset({REGISTERED, VERSION})
"""The kinds of records that are in the model registry."""

NAMES_A_LISTING: Final = 5
"""The most registered models that are listed by their names, two requests each; of more all are."""

MOST_KEPT: Final = 1_000_000
"""The most experiments, or registered models: they are kept in memory."""
MOST_KEPT_PAGES: Final = 10_000
"""The most pages of such a listing, of which some may be small or empty."""


def label_of(listing: str) -> str:
    """Return the name of a listing for errors."""
    return f"MLflow's listing of {listing}"


RUNS_LISTING: Final = label_of("runs")


def id_pieces(ids: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Yield those of `ids` that a filter can name, sorted, as many at once as it may name."""
    yield from map(tuple, chunks(sorted(filter(SAFE_ID.fullmatch, ids)), IDS_A_LISTING))


def offset_token(offset: int) -> str:
    """Return MLflow's page token for an offset.

    Source: `SearchUtils.create_page_token` of MLflow 1.x to 3.17.
    """
    return base64.b64encode(json.dumps({"offset": offset}).encode()).decode()


def token_param(token: str | None) -> Mapping[str, str]:
    """Return the part of a request that asks for the page of `token`, None for the first."""
    return {"page_token": token} if token else {}


def offset_after(token: str | None, items: int) -> str | None:
    """Return the token so many items after `token`, None where `token` is of another kind."""
    try:
        start = 0 if token is None else json.loads(base64.b64decode(token, validate=True))["offset"]
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None
    # Only a token that we would write the same way can be foretold.
    is_own = isinstance(start, int) and (token is None or offset_token(start) == token)
    return offset_token(start + items) if is_own else None


def _models_filter(only: ModelFilter) -> str:
    """Return a filter of logged models in MLflow's search language."""
    clauses = []
    if only.updated_since_ms is not None:
        clauses.append(f"last_updated_timestamp >= {only.updated_since_ms}")
    if only.run_ids is not None:
        clauses.append(f"source_run_id IN {_id_list(only.run_ids)}")
    if only.model_ids is not None:
        clauses.append(f"model_id IN {_id_list(only.model_ids)}")
    if only.newest_external is not None:
        clauses.append(f"tags.`{EXTERNAL_TAG}` = 'true'")
    return " AND ".join(clauses)


def name_filter(name: str) -> str | None:
    """Return a filter of the registered model `name`, None where MLflow's language has no such."""
    mark = '"' if "'" in name else "'"
    # It has no escape.
    return None if mark in name else f"name={mark}{name}{mark}"


def _id_list(ids: Sequence[str]) -> str:
    listed = ", ".join(f"'{id_}'" for id_ in ids)
    return f"({listed})"


def entries_of(runs: Iterable[Run]) -> int:
    """Return how many parameters, metrics and tags `runs` have."""
    return sum(len(run.params) + len(run.metrics) + len(run.tags) for run in runs)


class PageSize:
    """The number of runs to take at a time: `most`, and fewer where these would weigh too much.

    A run may have thousands of parameters and metrics, and the size of a page depends on those.
    The weight of the last page tells how many runs fit into the next.
    """

    def __init__(self, most: int, weight: int, first: int = FIRST_RUNS) -> None:
        """Keep pages to `most` runs and about `weight`, in whatever unit `learn` is given."""
        self._most = most
        self._weight = weight
        self.runs = min(most, first)

    def learn(self, runs: int, weight: int) -> None:
        """Learn from so many runs that weighed so much."""
        if runs:
            self.runs = max(1, min(self._most, self._weight * runs // max(weight, 1)))


class RunsQuery:
    """One reading of runs: the part of a filter for the server, and the part done here.

    Without a limit runs come oldest first: then new ones appear behind the place that is read,
    and offsets do not move. With a limit they come newest first.
    """

    def __init__(self, only: RunFilter, page_size: int) -> None:
        """Take a filter, and the most runs to ask for in one page."""
        self._only = only
        self.left = only.limit
        """How many more runs are wanted, None for all."""
        # MLflow compares a status with one value only, and has no "or".
        self._statuses = frozenset(only.statuses) if len(only.statuses) > 1 else None
        self.is_exact = self._statuses is None and only.limit is not None
        """Whether it is known how many runs a listing needs at most: those that are left."""
        self.page_size = min(page_size, only.limit) if self.is_exact and only.limit else page_size

    def body(self, experiment_ids: Sequence[str], count: int) -> Mapping[str, Any]:
        """Return the body of `runs/search` for the first page, of `count` runs."""
        only = self._only
        clauses = [f"attributes.{field} {operator} {ms}" for field, operator, ms in only.times()]
        if len(only.statuses) == 1:
            clauses.append(f"attributes.status = '{only.statuses[0]}'")
        if only.run_ids is not None:
            clauses.append(f"attributes.run_id IN {_id_list(only.run_ids)}")
        return {
            "experiment_ids": list(experiment_ids),
            "run_view_type": "DELETED_ONLY" if only.deleted else "ALL",
            "max_results": count,
            # MLflow breaks ties by the run's id.
            "order_by": [f"attributes.start_time {'ASC' if only.limit is None else 'DESC'}"],
            **({"filter": " AND ".join(clauses)} if clauses else {}),
            # MLflow refuses offset 0.
            **token_param(offset_token(only.skip) if only.skip else None),
        }

    def accept(self, runs: list[Run]) -> list[Run]:
        """Return those of a page that are wanted, and count them."""
        if self._statuses is not None:
            runs = [run for run in runs if run.status in self._statuses]
        if self.left is not None:
            runs = runs[: self.left]
            self.left -= len(runs)
        return runs


class ApiReader(ABC):
    """The listings of a `Reader` but those of runs, over the pages of MLflow's own listings."""

    experiments_a_listing: ClassVar[int] = EXPERIMENTS_A_LISTING
    logged_models_page: ClassVar[int] = LOGGED_MODELS_PAGE
    experiments_order: ClassVar[str] = "creation_time ASC"

    def __init__(self, config: MlflowConfig) -> None:
        self._config = config
        self._experiments: list[list[Experiment]] | None = None
        self._models: list[list[RegisteredModel]] | None = None
        self._prompts: set[str] = set()
        self._named: list[str] | None = None
        self.refusals = Refusals()

    @staticmethod
    def json_of(item: Json) -> Json:
        """Return an item of a listing as the JSON of MLflow's servers."""
        return item

    @abstractmethod
    def _page(self, listing: str, query: Mapping[str, Any], token: str | None) -> ListingPage[Any]:
        """Return a page of a listing, an empty one of `logged-models` where it is missing."""

    def _items(self, listing: str, query: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
        """Yield the items of a listing in pages."""
        return follow(partial(self._page, listing, query), listing=label_of(listing))

    def experiments(self) -> Iterator[list[Experiment]]:
        """Yield all experiments in pages; listed once and kept."""
        if self._experiments is None:
            query = {
                "view_type": "ALL",
                "max_results": EXPERIMENTS_PAGE,
                "order_by": [self.experiments_order],
            }
            self._experiments = self._kept("experiments", query)
        yield from self._experiments

    def first_created_ms(self) -> int | None:
        """Return the creation time of experiment 0, None where that is not known."""
        every = (experiment for page in self.experiments() for experiment in page)
        first = next((one for one in every if one.experiment_id == "0"), None)
        return None if first is None else first.created_at_ms

    def parents(self, experiment_ids: Sequence[str], *, only: RunFilter) -> None:
        """Return None: MLflow lists runs with all that they hold, or not at all."""
        del experiment_ids, only

    def run_digests(self, experiment_ids: Sequence[str], before_ms: Sequence[int]) -> None:
        """Return None, as `parents`."""
        del experiment_ids, before_ms

    def registered_models(self) -> Iterator[list[RegisteredModel]]:
        """Yield all registered models in pages, without prompts; listed once and kept."""
        if self._models is None:
            pages = self._kept("registered-models", {"max_results": MODELS_PAGE})
            self._prompts = {
                model.name for page in pages for model in page if is_prompt(model.tags)
            }
            self._models = [
                [model for model in page if not is_prompt(model.tags)] for page in pages
            ]
        yield from self._models

    def narrow_registry(self, names: Sequence[str]) -> None:
        """List only the registered models with these names, a request each, if they are few."""
        conditions = [name_filter(name) for name in names]
        if len(names) <= NAMES_A_LISTING and None not in conditions:
            self._named = list(filter(None, conditions))

    def model_versions(self) -> Iterator[list[ModelVersion]]:
        """Yield the versions of all registered models in pages, prompts left out."""
        models = [model for page in self.registered_models() for model in page]
        if not models:
            return
        aliases = Aliases(models, self._prompts)
        for page in self._records("model-versions", _VERSIONS, aliases=aliases):
            yield [
                version
                for version in page
                if version.name not in self._prompts and not is_prompt(version.tags)
            ]

    def assets(self, kind: str) -> Sequence[Asset] | None:
        """Return the prompts, which are in the model registry; see `Reader.assets`.

        Raises:
            RecipeError: other assets are asked for, which MlflowClient cannot list.
        """
        if kind != PROMPT:
            raise RecipeError(
                f"MlflowClient lists no {kind}s",
                hint="delete them from `include`, or read the server over REST, or its database",
            )
        # A listing has no prompts, unless it is filtered by their tag.
        query: Json = {"filter": f"tags.`{PROMPT_TAG}` = 'true'"}
        found = self._records("registered-models", {"max_results": MODELS_PAGE, **query})
        models = [model for page in found for model in page if is_prompt(model.tags)]
        query = {**_VERSIONS, **query}
        versions = self._records("model-versions", query, aliases=Aliases(models))
        there = chain.from_iterable(versions if models else ())
        return prompts(models, (one for one in there if is_prompt(one.tags)))

    def logged_models(
        self, experiment_ids: Sequence[str], *, only: ModelFilter = ALL_MODELS
    ) -> Iterator[list[LoggedModel]]:
        """Yield the logged models of some experiments in pages; none where MLflow has none.

        They come in the order they were made, as runs are listed: those that runs need come up as
        the runs are read.
        """
        condition, left = _models_filter(only), only.newest_external
        for ids in chunks(experiment_ids, self.experiments_a_listing):
            query = {
                "experiment_ids": list(ids),
                "max_results": min(self.logged_models_page, left or self.logged_models_page),
                "order_by": [{"field_name": "creation_timestamp", "ascending": left is None}],
                **({"filter": condition} if condition else {}),
            }
            for page in self._records("logged-models", query):
                yield page[:left]
                left = None if left is None else left - len(page)
                if left is not None and left <= 0:
                    return

    def _kept(self, listing: str, query: Mapping[str, Any]) -> list[list[Any]]:
        """Return all pages of a listing that is kept in memory, and so has to end."""
        pages: list[list[Any]] = []
        left = MOST_KEPT
        for page in self._records(listing, query):
            pages.append(page)
            left -= len(page)
            if left < 0 or len(pages) > MOST_KEPT_PAGES:
                raise ProtocolMismatchError(
                    f"{label_of(listing)} does not end: it has "
                    f"{plural(MOST_KEPT - left, 'item')} in {plural(len(pages), 'page')}",
                    hint="check the server, or for a proxy that changes replies",
                )
        return pages

    def _records(self, listing: str, query: Mapping[str, Any], **more: Any) -> Iterator[list[Any]]:
        seen, kind = RecentIds(label_of(listing)), LISTINGS[listing][0]
        named = self._named if kind in OF_REGISTRY and self._named is not None else [""]
        for name in named:
            condition = " AND ".join(filter(None, (query.get("filter"), name)))
            wanted = {**query, "filter": condition} if condition else query
            for items in self._items(listing, wanted):
                records = self._usable(listing, items, **more)
                ids = ["/".join([getattr(one, part) for part in IDS[kind]]) for one in records]
                yield [records[at] for at in seen.new(ids)]

    def _usable(self, listing: str, items: Iterable[Any], **more: Any) -> list[Any]:
        """Return the records of the items of a listing, without those that are refused."""
        kind, convert = LISTINGS[listing]
        return self.refusals.usable(kind, lambda item: convert(self.json_of(item), **more), items)
