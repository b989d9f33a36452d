"""What readers of MLflow's listings share, whether REST or MlflowClient carries the requests."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar

from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.decode import Aliases, decoded, is_prompt
from mlcat_ingest.sources.mlflow.read.listing import (
    EXPERIMENTS_A_LISTING,
    EXPERIMENTS_PAGE,
    LOGGED_MODELS_ORDER,
    LOGGED_MODELS_PAGE,
    MODELS_PAGE,
    VERSIONS_PAGE,
    chunks,
    models_filter,
)
from mlcat_ingest.sources.mlflow.read.paging import RecentIds
from mlcat_ingest.sources.mlflow.read.reader import ALL_MODELS, ModelFilter
from mlcat_ingest.sources.mlflow.values.records import (
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
)


class ApiReader(ABC):
    """The listings of a `Reader` but those of runs, over the pages of MLflow's own listings."""

    converters: ClassVar[Mapping[str, Callable[..., Any]]]
    """What makes a record of an item, for each listing."""

    def __init__(self, config: MlflowConfig) -> None:
        """Contact nothing yet."""
        self._config = config
        self._experiments: list[list[Experiment]] | None = None
        self._models: list[list[RegisteredModel]] | None = None
        self._prompts: set[str] = set()

    @abstractmethod
    def _items(self, listing: str, query: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
        """Yield the items of a listing in pages; none of `logged-models` where it is missing."""

    def experiments(self) -> Iterator[list[Experiment]]:
        """Yield all experiments in pages; listed once and kept."""
        if self._experiments is None:
            query = {
                "view_type": "ALL",
                "max_results": EXPERIMENTS_PAGE,
                "order_by": ["creation_time ASC"],
            }
            pages = self._records("experiments", query, attrgetter("experiment_id"))
            self._experiments = list(pages)
        yield from self._experiments

    def first_created_ms(self) -> int | None:
        """Return the creation time of experiment 0, None where that is not known."""
        every = (one for page in self.experiments() for one in page)
        return next((one.created_at_ms for one in every if one.experiment_id == "0"), None)

    def registered_models(self) -> Iterator[list[RegisteredModel]]:
        """Yield all registered models in pages, without prompts; listed once and kept."""
        if self._models is None:
            query = {"max_results": MODELS_PAGE}
            pages = list(self._records("registered-models", query, attrgetter("name")))
            self._prompts = {one.name for page in pages for one in page if is_prompt(one.tags)}
            self._models = [[one for one in page if not is_prompt(one.tags)] for page in pages]
        yield from self._models

    def model_versions(self) -> Iterator[list[ModelVersion]]:
        """Yield the versions of all registered models in pages, prompts left out."""
        models = [model for page in self.registered_models() for model in page]
        if not models:
            return
        # A total order that edits do not change: the server's own would lose edited versions.
        query = {"max_results": VERSIONS_PAGE, "order_by": ["name ASC", "version_number ASC"]}
        for page in self._records("model-versions", query, _version_id, aliases=Aliases(models)):
            yield [one for one in page if one.name not in self._prompts and not is_prompt(one.tags)]

    def logged_models(
        self, experiment_ids: Sequence[str], *, only: ModelFilter = ALL_MODELS
    ) -> Iterator[list[LoggedModel]]:
        """Yield the logged models of some experiments in pages; none where MLflow has none."""
        condition = models_filter(only)
        for ids in chunks(experiment_ids, EXPERIMENTS_A_LISTING):
            query = {
                "experiment_ids": list(ids),
                "max_results": LOGGED_MODELS_PAGE,
                "order_by": LOGGED_MODELS_ORDER,
                **({"filter": condition} if condition else {}),
            }
            yield from self._records("logged-models", query, attrgetter("model_id"))

    def _records(
        self, listing: str, query: Mapping[str, Any], id_of: Callable[[Any], str], **more: Any
    ) -> Iterator[list[Any]]:
        convert = partial(self.converters[listing], **more)
        seen = RecentIds()
        for items in self._items(listing, query):
            found = decoded(listing, convert, items)
            yield [found[at] for at in seen.new([id_of(one) for one in found])]


def _version_id(version: ModelVersion) -> str:
    return f"{version.name}/{version.version}"
