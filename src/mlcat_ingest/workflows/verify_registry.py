"""Comparison of registered models and versions with the catalog, and of links to features."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.core.text import whole_characters
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.aspects.common import STATUS, VERSION_PROPERTIES
from mlcat_ingest.metadata.aspects.governance import GLOBAL_TAGS
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_GROUP_PROPERTIES, ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.listing import chunks
from mlcat_ingest.sources.mlflow.read.reader import (
    IDS_A_LISTING,
    SAFE_ID,
    ModelFilter,
    Reader,
    RunFilter,
)
from mlcat_ingest.sources.mlflow.values.joined import LIMITS
from mlcat_ingest.sources.mlflow.values.records import (
    LoggedModel,
    Metric,
    ModelVersion,
    PropertyKey,
    RegisteredModel,
    Run,
    SubType,
    aliases_of,
    number_of,
)
from mlcat_ingest.workflows.verify_entities import EntityComparison, fit, option_against
from mlcat_ingest.workflows.verify_kinds import KIND_ASPECTS, KindComparison
from mlcat_ingest.workflows.verify_result import VerifyResult
from mlcat_ingest.workflows.verify_sample import spread

_STAGES: Final = ("Staging", "Production", "Archived")
_STAGE_TAG: Final = "urn:li:tag:mlflow_"

KNOWN_FEATURES: Final = 50_000
"""Features of which it is kept whether the catalog has them."""


class LinkComparison:
    """Reports links to features that the catalog does not have."""

    def __init__(self, catalog: Catalog, result: VerifyResult) -> None:
        """Look for features in `catalog`."""
        self._catalog = catalog
        self._result = result
        self._features: dict[str, bool] = {}

    def compare(self, entities: Iterable[EntityComparison]) -> None:
        """Report the links of `entities` that lead nowhere.

        Cost: one request for each 200 features that were not asked for before.
        """
        links = [
            (entity, urn) for entity in entities for urn in entity.properties.get("mlFeatures", ())
        ]
        new = {urn for _, urn in links if urn not in self._features}
        if len(self._features) > KNOWN_FEATURES:
            self._features.clear()
            new = {urn for _, urn in links}
        for urns in chunks(sorted(filter(_is_feature, new)), MAX_REQUEST_ITEMS):
            key = key_aspect_name(entity_type_of(urns[0]))
            stored = self._catalog.read_many(urns, [key, STATUS])
            self._features.update((urn, key in stored.get(urn, {})) for urn in urns)
        for entity, urn in links:
            self._result.compared["feature link"] += 1
            if not self._features.get(urn):
                entity.report("dangling", "feature link", "mlFeatures", urn, None)


def _is_feature(urn: str) -> bool:
    try:
        return entity_type_of(urn) == "mlFeature"
    except InvalidUrnError:
        return False


@dataclass(frozen=True, slots=True)
class _VersionOrigins:
    """The runs and logged models that versions were made from, by id, as far as they are read."""

    runs: Mapping[str, Run] = field(default_factory=dict)
    models: Mapping[str, LoggedModel] = field(default_factory=dict)

    def of(self, version: ModelVersion) -> tuple[Run | None, LoggedModel | None]:
        """Return the run and the logged model of a version, None for each that is not known."""
        model_id = _logged_model_id(version)
        model = self.models.get(model_id or "")
        if version.run_id:
            return self.runs.get(version.run_id), model
        run = self.runs.get((model and model.source_run_id) or "")
        made = run is not None and any(one.model_id == model_id for one in run.model_outputs)
        return run if made else None, model


def models_made_by(reader: Reader, runs: Iterable[Run]) -> dict[str, LoggedModel]:
    """Return the logged models that runs made, by id.

    Cost: one request for each 100 of the runs that made any.
    """
    found: dict[str, LoggedModel] = {}
    for some in chunks([run for run in runs if run.model_outputs], IDS_A_LISTING):
        only = ModelFilter(run_ids=tuple(run.run_id for run in some))
        experiments = sorted({run.experiment_id for run in some})
        for page in reader.logged_models(experiments, only=only):
            found.update((model.model_id, model) for model in page)
    return found


def metrics_of_models(run: Run, models: Mapping[str, LoggedModel]) -> list[Metric]:
    """Return the metrics of those of `models` that a run made."""
    made = [models[one.model_id] for one in run.model_outputs if one.model_id in models]
    return [metric for model in made for metric in model.metrics]


class RegistryComparison:
    """The registered models of a workspace and their versions, to be compared after the runs.

    Attributes:
        models: the registered models by name.
        versions: every version of each.
    """

    def __init__(
        self,
        reader: Reader,
        config: MlflowConfig,
        catalog: Catalog,
        result: VerifyResult,
        naming: Naming,
        links: LinkComparison,
        kinds: KindComparison,
    ) -> None:
        """List the registered models and versions of the workspace of `reader`."""
        self._reader = reader
        self._config = config
        self._catalog = catalog
        self._result = result
        self._naming = naming
        self._links = links
        self._kinds = kinds
        self.models = {one.name: one for page in reader.registered_models() for one in page}
        self.versions = [one for page in reader.model_versions() for one in page]
        self._by_origin: dict[str, list[ModelVersion]] = {}
        for version in self.versions:
            origin = version.run_id or _logged_model_id(version)
            if origin:
                self._by_origin.setdefault(origin, []).append(version)
        self._newest_from_runs: dict[str, ModelVersion] = {}
        self._runs_read: set[str] = set()

    def model_ids(self) -> set[str]:
        """Return the ids of the logged models that versions name."""
        return {one for one in map(_logged_model_id, self.versions) if one}

    def has_versions_of(self, run: Run) -> bool:
        """Return whether a version was made from a run, or from a logged model that it made."""
        return any(True for _ in self._versions_of(run))

    def _versions_of(self, run: Run) -> Iterator[ModelVersion]:
        for origin in (run.run_id, *(output.model_id for output in run.model_outputs)):
            yield from self._by_origin.get(origin, ())

    def add_run(self, run: Run) -> None:
        """Take note of a run that the recipe reads, where versions were made from it."""
        for one in self._versions_of(run):
            self._runs_read.add(run.run_id)
            newest = self._newest_from_runs.get(one.name, one)
            later = max(newest, one, key=lambda each: number_of(each.version))
            self._newest_from_runs[one.name] = later

    def compare(
        self,
        experiment_ids: Sequence[str],
        since_ms: int | None,
        sample: int | None,
        *,
        whole: bool,
    ) -> Iterator[None]:
        """Compare batch by batch; not the `whole`, but the versions of runs that were added.

        Their runs are in `experiment_ids`, and started at `since_ms` or later.

        Cost: for 200 versions one request to the catalog, and to MLflow up to two for their runs
        and four for their logged models.
        """
        versions = [one for one in self.versions if whole or self._is_read(one)]
        names = {one.name for one in versions} if not whole else self.models.keys()
        models = [self.models[name] for name in sorted(names) if name in self.models]
        left_out = len(self.versions) - len(versions)
        self._result.leave_out("version", "of runs that the recipe does not read", left_out)
        for some in chunks(spread(models, sample), MAX_REQUEST_ITEMS):
            self._compare_models(some)
        for some_versions in chunks(spread(versions, sample), MAX_REQUEST_ITEMS):
            origins = _VersionOrigins()
            if experiment_ids:
                origins = self._origins_of(some_versions, experiment_ids, since_ms)
            self._compare_versions(some_versions, origins)
            yield

    def _is_read(self, version: ModelVersion) -> bool:
        """Return whether a version is read where only some runs are.

        It is, if it or another version of its model is made from one of them; with a `limit`, if
        that is a later one.
        """
        newest = self._newest_from_runs.get(version.name)
        if newest is None or self._config.limit is None:
            return newest is not None
        return number_of(version.version) <= number_of(newest.version)

    def _compare_models(self, models: Sequence[RegisteredModel]) -> None:
        urns = [self._group_urn(one.name) for one in models]
        aspects = [ML_MODEL_GROUP_PROPERTIES, STATUS, *KIND_ASPECTS]
        stored = self._catalog.read_many(urns, aspects)
        for urn, one in zip(urns, models, strict=True):
            held = stored.get(urn, {})
            entity = EntityComparison(self._result, urn, ML_MODEL_GROUP_PROPERTIES, held)
            if entity.is_live("registered model", one.name):
                entity.tags(one.tags, without=())
                self._kinds.compare(urn, held, SubType.REGISTERED_MODEL)

    def _origins_of(
        self, versions: Sequence[ModelVersion], experiment_ids: Sequence[str], since_ms: int | None
    ) -> _VersionOrigins:
        models: dict[str, LoggedModel] = {}
        for some in _id_chunks(map(_logged_model_id, versions)):
            named = ModelFilter(model_ids=tuple(some))
            for page in self._reader.logged_models(experiment_ids, only=named):
                models.update((one.model_id, one) for one in page)
        run_ids = [one.run_id for one in versions]
        run_ids += [one.source_run_id for one in models.values()]
        runs: dict[str, Run] = {}
        for some in _id_chunks(run_ids):
            for found in self._reader.runs(experiment_ids, only=RunFilter(run_ids=tuple(some))):
                runs.update((run.run_id, run) for run in found if self._is_wanted(run, since_ms))
        return _VersionOrigins(runs, {**models_made_by(self._reader, runs.values()), **models})

    def _is_wanted(self, run: Run, since_ms: int | None) -> bool:
        """Return whether the recipe reads a run from which a version was made."""
        if self._config.limit is not None:
            return run.run_id in self._runs_read
        return option_against(run, self._config.runs, since_ms, registered=True) is None

    def _compare_versions(self, versions: Sequence[ModelVersion], origins: _VersionOrigins) -> None:
        urns = [self._version_urn(one) for one in versions]
        stored = self._catalog.read_many(
            urns, [ML_MODEL_PROPERTIES, VERSION_PROPERTIES, GLOBAL_TAGS, STATUS, *KIND_ASPECTS]
        )
        entities = [
            EntityComparison(self._result, urn, ML_MODEL_PROPERTIES, stored.get(urn, {}))
            for urn in urns
        ]
        for entity, one in zip(entities, versions, strict=True):
            if not entity.is_live("version", f"{one.name} {one.version}"):
                continue
            entity.fact("version", PropertyKey.RUN_ID, one.run_id)
            entity.fact("version", PropertyKey.VERSION, one.version)
            entity.tags(one.tags, without=())
            entity.membership(self._group_urn(one.name))
            self._kinds.compare(
                entity.urn, stored[entity.urn], SubType.MODEL_VERSION, folder=one.name
            )
            model = self.models.get(one.name)
            held = stored[entity.urn].get(VERSION_PROPERTIES)
            self._compare_aliases(
                entity,
                {} if held is None else held.value,
                aliases_of(one, model),
                {} if model is None else model.aliases,
            )
            tags = stored[entity.urn].get(GLOBAL_TAGS)
            self._compare_stage(entity, {} if tags is None else tags.value, one.stage)
            self._compare_training(entity, one, origins)
        self._links.compare(entities)

    def _compare_aliases(
        self,
        entity: EntityComparison,
        stored: Mapping[str, Any],
        aliases: Collection[str],
        all_of_model: Mapping[str, str],
    ) -> None:
        """Compare the aliases of a version: no other version of the model may have them.

        An alias that MLflow does not know is stale only where MLflow is named as its origin.
        """
        held = [_version_tag(one) for one in stored.get("aliases") or []]
        for alias in sorted(aliases):
            self._result.compared["alias"] += 1
            wanted = fit(alias, LIMITS.value_chars)
            if wanted not in held:
                found = ", ".join(held) or None
                entity.report("missing", "alias", "versionProperties.aliases", alias, found)
        from_mlflow = entity.custom.get(PropertyKey.ALIASES) or "[]"
        for alias in held:
            other = all_of_model.get(alias)
            if alias not in {fit(one, LIMITS.value_chars) for one in aliases} and (
                other is not None or json.dumps(f"@{alias}", ensure_ascii=False)[1:] in from_mlflow
            ):
                where = None if other is None else f"on version {other}"
                entity.report("stale", "alias", f"versionProperties.aliases[{alias}]", where, alias)

    def _compare_stage(
        self, entity: EntityComparison, stored: Mapping[str, Any], stage: str | None
    ) -> None:
        """Compare the tag of a version's stage: it has no other stage's."""
        held = {one.get("tag") for one in stored.get("tags") or ()}
        for one in _STAGES:
            urn = f"{_STAGE_TAG}{one.lower()}"
            if one == stage:
                self._result.compared["stage"] += 1
                if urn not in held:
                    entity.report("missing", "stage", f"{GLOBAL_TAGS}.tags", urn, None)
            elif urn in held:
                entity.report("stale", "stage", f"{GLOBAL_TAGS}.tags", None, urn)

    def _compare_training(
        self, entity: EntityComparison, version: ModelVersion, origins: _VersionOrigins
    ) -> None:
        """Compare what is known of the logged model, or else of the run."""
        run, model = origins.of(version)
        if model is not None:
            entity.fact("version", PropertyKey.MODEL_STATUS, model.status)
            entity.tags(model.tags, without=())
        if model is not None and model.params:
            entity.params(model.params)
        elif run is not None:
            entity.params(run.params)
        if model is not None and model.metrics:
            entity.metrics((), model.metrics, system=False)
        elif run is not None:
            made = metrics_of_models(run, origins.models)
            entity.metrics(run.metrics, made, system=self._config.system_metrics)

    def _group_urn(self, name: str) -> str:
        return self._naming.registered_group(whole_characters(name)).urn

    def _version_urn(self, version: ModelVersion) -> str:
        name, number = whole_characters(version.name), whole_characters(version.version)
        return self._naming.version(name, number).urn


def _logged_model_id(version: ModelVersion) -> str | None:
    source = version.source or ""
    named = source.removeprefix("models:/").partition("/")[0]
    return version.model_id or (named if source.startswith("models:/m-") else None)


def _id_chunks(ids: Iterable[str | None]) -> Iterator[Sequence[str]]:
    """Yield the ids that may stand in a filter, each once, by as many as a listing takes."""
    safe = sorted({one for one in ids if one and SAFE_ID.fullmatch(one)})
    return chunks(safe, IDS_A_LISTING)


def _version_tag(alias: Mapping[str, Any]) -> str:
    return str(alias.get("versionTag", ""))
