"""MLflow by its own client: what each entity of a catalog should hold."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

DESCRIPTION = "mlflow.note.content"
HISTORY = "mlflow.log-model.history"
NAME = "mlflow.runName"
PARENT = "mlflow.parentRunId"
NAMES = ("mlflow.modelVersions",)
"""Tags of logged models with the names that registered models had once."""
STAGES = ("Staging", "Production", "Archived")


@dataclass(frozen=True)
class Names:
    """The URNs that things of one workspace have under the default templates."""

    env: str = "PROD"
    instance: str = ""
    workspace: str = ""

    @property
    def start(self) -> str:
        return "".join(f"{_encoded(one)}." for one in (self.instance, self.workspace) if one)

    def model(self, name: str) -> str:
        return self._urn("mlModel", name)

    def group(self, name: str) -> str:
        return self._urn("mlModelGroup", name)

    def _urn(self, kind: str, name: str) -> str:
        return f"urn:li:{kind}:(urn:li:dataPlatform:mlflow,{self.start}{_encoded(name)},{self.env})"


def _encoded(text: str) -> str:
    unsafe = "[,()%\x00-\x1f\x7f-\x9f\u2028\u2029\u241f]"
    return re.sub(unsafe, lambda found: quote(found[0], safe=""), text)


@dataclass
class Wanted:
    """An entity that the catalog should hold, or hide where it is in MLflow's trash.

    `facts` are custom properties of known names. Each metric has the values that may stand for it.
    None says that MLflow does not tell.
    """

    urn: str
    hidden: bool = False
    params: dict[str, str] | None = None
    metrics: dict[str, set[float]] | None = None
    tags: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str | None] = field(default_factory=dict)
    description: str | None = None
    group: str | None = None
    subtypes: set[str] = field(default_factory=set)
    folders: list[str] = field(default_factory=list)
    aliases: set[str] | None = None
    stage: str | None = None
    datasets: set[tuple[str, str]] = field(default_factory=set)
    listed_models: dict[str, Any] = field(default_factory=dict)


def wanted_entities(tracking_uri: str, names: Names) -> list[Wanted]:
    """Return what the catalog should hold of all that a store has."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri)
    return list(_Store(client, names).wanted())


class _Store:
    """All of a store, read at once."""

    def __init__(self, client: Any, names: Names) -> None:
        from mlflow.entities import ViewType

        self._client, self._names = client, names
        every = _pages(lambda token: client.search_experiments(ViewType.ALL, page_token=token))
        self._experiments = {one.experiment_id: one for one in every}
        self._runs: dict[str, Any] = {}
        self._models: dict[str, Any] = {}
        for place in self._experiments:
            runs = _pages(
                lambda token, place=place: client.search_runs(
                    [place], run_view_type=ViewType.ALL, page_token=token
                )
            )
            self._runs.update((run.info.run_id, run) for run in runs)
            models = _pages(
                lambda token, place=place: client.search_logged_models([place], page_token=token)
            )
            self._models.update((model.model_id, model) for model in models)
        self._versions = list(_pages(lambda token: client.search_model_versions(page_token=token)))
        tags = (run.data.tags for run in self._runs.values())
        self._parents = {one[PARENT] for one in tags if one.get(PARENT)}

    def wanted(self) -> Iterator[Wanted]:
        names = self._names
        for experiment in self._experiments.values():
            yield Wanted(
                names.group(experiment.name),
                hidden=experiment.lifecycle_stage == "deleted",
                tags=_without(experiment.tags, DESCRIPTION),
                description=experiment.tags.get(DESCRIPTION),
                subtypes={"ML Experiment"},
            )
        yield from map(self._run, self._runs.values())
        for model in self._models.values():
            external = model.tags.get("mlflow.model.isExternal") == "true"
            if external or not model.source_run_id:
                yield self._external(model)
        for registered in _pages(
            lambda token: self._client.search_registered_models(page_token=token)
        ):
            yield Wanted(
                names.group(f"registered:{registered.name}"),
                tags=dict(registered.tags),
                subtypes={"Registered Model"},
            )
            versions = _pages(
                lambda token, name=registered.name: self._client.search_model_versions(
                    f"name = '{name}'", page_token=token
                )
            )
            for version in versions:
                yield self._version(version, registered)

    def _run(self, run: Any) -> Wanted:
        experiment = self._experiments[run.info.experiment_id]
        made = self._made_by(run)
        only = next(iter(made.values())) if len(made) == 1 else None
        tags, parent = dict(run.data.tags), run.data.tags.get(PARENT)
        is_read = parent in self._runs and parent != run.info.run_id
        same_name = tags.get(NAME) == run.info.run_name
        facts: dict[str, str | None] = {
            "mlflow.status": run.info.status,
            "mlflow.parent_run_id": parent,
            "mlflow.parent_run": self._names.model(parent) if is_read else None,
        }
        if only is not None:
            facts |= {"mlflow.model_id": only.model_id, "mlflow.model_status": str(only.status)}
        return Wanted(
            self._names.model(run.info.run_id),
            hidden="deleted" in (run.info.lifecycle_stage, experiment.lifecycle_stage),
            params=_joined(run.data.params, only and only.params),
            metrics=self._metrics_of(run),
            tags=_joined(
                _without(tags, DESCRIPTION, HISTORY, *((NAME,) if same_name else ())),
                only and _without(only.tags, *tags, *NAMES),
            ),
            facts=facts,
            description=tags.get(DESCRIPTION),
            group=self._names.group(experiment.name),
            subtypes=self._subtypes(run),
            folders=[experiment.name],
            datasets={(one.dataset.name, one.dataset.digest) for one in run.inputs.dataset_inputs},
            listed_models=made if len(made) > 1 else {},
        )

    def _subtypes(self, run: Any) -> set[str]:
        is_parent = run.info.run_id in self._parents
        kinds = {"Evaluation Run": _is_evaluation(run), "Parent Run": is_parent}
        return {kind for kind, is_so in kinds.items() if is_so}

    def _external(self, model: Any) -> Wanted:
        experiment = self._experiments[model.experiment_id]
        return Wanted(
            self._names.model(model.model_id),
            hidden=experiment.lifecycle_stage == "deleted",
            params=dict(model.params),
            metrics=_values(model.metrics),
            tags=_without(model.tags, DESCRIPTION, *NAMES),
            facts={"mlflow.model_status": str(model.status)},
            description=model.tags.get(DESCRIPTION),
            group=self._names.group(experiment.name),
            subtypes={"External Model"},
            folders=[experiment.name],
        )

    def _version(self, version: Any, registered: Any) -> Wanted:
        model = self._models.get(_model_id(self._origin(version)))
        run = self._runs.get(version.run_id or (model and model.source_run_id) or "")
        params = dict(model.params) if model and model.params else None
        own = self._own_metrics(model) if model else []
        metrics = _values(own) if own else None
        if metrics and run is not None and model is not None:
            metrics |= self._measured_later(run, model)
        if run is not None:
            params = dict(run.data.params) if params is None else params
            of_one = len(self._outputs(run)) < 2
            metrics = (self._metrics_of(run) if of_one else {}) if metrics is None else metrics
        aliases = {
            name for name, of in registered.aliases.items() if str(of) == str(version.version)
        }
        return Wanted(
            self._names.model(f"{version.name}_{version.version}"),
            params=params,
            metrics=metrics,
            tags=_joined(dict(version.tags), model and _without(model.tags, *NAMES)),
            facts={"mlflow.run_id": version.run_id or None, "mlflow.version": str(version.version)},
            group=self._names.group(f"registered:{version.name}"),
            subtypes={"Model Version"},
            folders=[version.name],
            aliases=aliases,
            stage=version.current_stage if version.current_stage in STAGES else None,
        )

    def _measured_later(self, run: Any, model: Any) -> dict[str, set[float]]:
        """Return the last values of a run that its only model, logged at step 0, lacks by that."""
        if [(one.model_id, one.step) for one in run.outputs.model_outputs] != [(model.model_id, 0)]:
            return {}
        made_ms = model.creation_timestamp
        by_hand = {
            one.key
            for one in model.metrics
            if one.step or one.timestamp > made_ms or one.run_id != run.info.run_id
        }
        return _without_system(
            {
                one.key: {one.value}
                for one in run.data._metric_objs
                if one.step and one.timestamp <= made_ms and one.key not in by_hand
            }
        )

    def _outputs(self, run: Any) -> list[str]:
        ids = [one.model_id for one in run.outputs.model_outputs] if run.outputs else []
        return list(dict.fromkeys(ids))

    def _origin(self, version: Any) -> Any:
        """Return the version that a version is a copy of in the end, where MLflow tells."""
        while named := re.fullmatch("models:/(.+)/([0-9]+)", version.source or ""):
            number = int(named[2])
            listed = (one for one in self._versions if one.name == named[1])
            origin = next((one for one in listed if int(one.version) == number), version)
            is_older = origin.creation_timestamp < version.creation_timestamp
            if not is_older or origin.run_id != version.run_id:
                break
            version = origin
        return version

    def _made_by(self, run: Any) -> dict[str, Any]:
        return {one: self._models[one] for one in self._outputs(run) if one in self._models}

    def _metrics_of(self, run: Any) -> dict[str, set[float]]:
        """Return the metrics that MLflow shows for a run, and those of its models beside them."""
        metrics: dict[str, set[float]] = {}
        for model in self._made_by(run).values():
            for name, values in _values(self._own_metrics(model)).items():
                metrics.setdefault(name, set()).update(values)
        shown = {name: {value} for name, value in run.data.metrics.items()}
        return _without_system({**metrics, **shown})

    def _own_metrics(self, model: Any) -> list[Any]:
        """Return the metrics of a model but for copies of those of the models before it."""
        run = self._runs.get(model.source_run_id or "")
        others = [one for one in self._made_by(run).values() if one is not model] if run else []
        before = {
            _facts(metric)
            for one in others
            if one.creation_timestamp < model.creation_timestamp
            for metric in one.metrics or ()
        }
        made_ms = model.creation_timestamp
        every = model.metrics or ()
        return [one for one in every if _facts(one) not in before or one.timestamp > made_ms]


def _pages(read: Any) -> Iterator[Any]:
    token = None
    while True:
        page = read(token)
        yield from page
        token = page.token
        if not token:
            return


def _without(tags: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in tags.items() if name not in names}


def _joined(first: Mapping[str, str], second: Mapping[str, str] | None) -> dict[str, str]:
    """Return both; of a name in both, only the first one's value is looked for under it."""
    return {**(second or {}), **first}


def _facts(metric: Any) -> tuple[Any, ...]:
    return metric.key, str(metric.value), metric.timestamp, metric.step, metric.run_id


def _values(metrics: Any) -> dict[str, set[float]]:
    """Return the last values; several where metrics of several datasets have one name."""
    last: dict[tuple[str, str, str], Any] = {}
    for one in sorted(metrics or (), key=lambda one: (one.step, one.timestamp, one.value)):
        last[one.key, one.dataset_name or "", one.dataset_digest or ""] = one
    values: dict[str, set[float]] = {}
    for one in last.values():
        values.setdefault(one.key, set()).add(one.value)
    return _without_system(values)


def _without_system(values: dict[str, set[float]]) -> dict[str, set[float]]:
    return {name: of for name, of in values.items() if not name.startswith("system/")}


def _model_id(version: Any) -> str:
    source = version.source or ""
    named = source.removeprefix("models:/").partition("/")[0]
    is_model = source.startswith("models:/m-")
    return str(getattr(version, "model_id", None) or (named if is_model else ""))


def _is_evaluation(run: Any) -> bool:
    tags = run.data.tags
    if "mlflow.runType" in tags:
        return bool(tags["mlflow.runType"] == "genai_evaluate")
    trains = bool(run.outputs and run.outputs.model_outputs) or HISTORY in tags
    return "mlflow.datasets" in tags and not trains
