"""A recipe that is read in shards, over a server with a history and into a catalog of its own."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mlcat_ingest.errors import CatalogUnavailableError
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.mlflow.source import MlflowSource
from mlcat_ingest.workflows.resolve import ResolvedRecipe
from mlcat_ingest.workflows.shard import ShardGroup, Sharding
from support.fake_mlflow import FakeReader, a_source
from support.fakes import FakeSink
from support.mlflow_history import Server


@dataclass
class ShardedRecipe:
    """Reads a server in shards of a few runs, in any order and more than once."""

    server: Server
    sink: FakeSink = field(default_factory=lambda: FakeSink(place="fake://catalog"))
    config: dict[str, Any] = field(default_factory=dict)
    evaluates: bool = False
    type: str = "rest"

    def build(self, **_: str) -> FakeSink:
        return self.sink

    def sharding(self) -> Sharding:
        recipe = Recipe.parse(
            "{name: r, writer_id: r, sources: [{type: mlflow}], report_to_catalog: false, "
            f"evaluate: {{enabled: {self.evaluates}}}, limits: {{max_removed_ratio: 1.0}}}}"
        )
        resolved: Any = ResolvedRecipe(recipe, (_Builds(self),), self)  # type: ignore[arg-type]
        return Sharding(resolved)

    def source(self) -> MlflowSource:
        reader = FakeReader({"default": self.server.store}, page=50, now_ms=self.server.now_ms)
        return a_source(reader, **self.config)

    def ingest(self, seed: int = 0) -> Report:
        """Run every shard, in an order of its own, one of them killed first and one twice."""
        sharding, chance = self.sharding(), random.Random(seed)
        shards = sharding.shards(least_size=1)
        chance.shuffle(shards)
        for shard in shards[:1]:
            self.killed(shard, after=chance.randrange(2))
        for shard in [*shards, *shards[-1:]]:
            report = sharding.read(shard)
            report.raise_for_failure()
            assert report.exit_code == 0
        finished = sharding.finish()
        finished.raise_for_failure()
        assert finished.exit_code == 0
        return finished

    def killed(self, shard: ShardGroup, *, after: int) -> None:
        """Read a shard whose catalog is gone after some writes."""
        left = iter(range(after))

        def perhaps(_: Sequence[Proposal]) -> None:
            if next(left, None) is None:
                raise CatalogUnavailableError("gone")

        self.sink.before_write = perhaps
        self.sharding().read(shard)
        self.sink.before_write = lambda _: None


@dataclass(frozen=True)
class _Builds:
    recipe: ShardedRecipe
    type: str = "mlflow"

    def build(self) -> MlflowSource:
        return self.recipe.source()
