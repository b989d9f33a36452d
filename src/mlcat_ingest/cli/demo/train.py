"""The demo's models: real scikit-learn training on data that ships with scikit-learn.

MLflow and scikit-learn are imported inside the functions; the extra `demo-train` brings both.
"""

import io
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mlcat_ingest.links.rules import FEAST_REFS
from mlcat_ingest.sources.mlflow.values.records import NOTE_TAG

_FEAST: Final = Path(__file__).with_name("feast")

EXPERIMENTS: Final = ("wine-cultivars", "breast-cancer-screening", "diabetes-progression")

_PROMPT: Final = "screening-report"
_TEXTS: Final = {
    "First draft.": "Explain the score {{score}} of a sample in two sentences.",
    "Says how sure the model is.": "You write to a doctor.\n"
    "Explain the score {{score}} of a sample, and that one in {{errors}} is wrong.",
}
"""The message of each version of the prompt to its text."""
_SERVER: Final = {
    "name": "com.example/screening",
    "title": "Screening",
    "description": "Scores samples with the screening model, and explains the scores.",
    "version": "1.0.0",
    "repository": {"url": "https://github.com/example/screening", "source": "github"},
    "remotes": [{"type": "streamable-http", "url": "https://screening.example.com/mcp"}],
}
"""The server.json of an MCP server, as the Model Context Protocol has it."""


@dataclass(frozen=True, slots=True)
class _Retrieval:
    """The tags that Feast's MLflow integration put on a run."""

    tags: Mapping[str, str]

    def of(self, data: Any) -> Any:
        """Return those columns of a frame that were asked for, as Feast names them."""
        named = data.rename(columns=lambda name: name.replace(" ", "_").replace("/", "_"))
        return named[[ref.partition(":")[2] for ref in self.tags[FEAST_REFS].split(",")]]


def _recorded_retrieval(run_name: str) -> _Retrieval:
    """Return what was recorded for the run of this name."""
    recorded = json.loads((_FEAST / "retrievals.json").read_text(encoding="utf-8"))
    return _Retrieval(recorded[run_name])


def train_models(
    tracking_uri: str,
    artifacts: Path | None = None,
    on_experiment: Callable[[str], None] | None = None,
) -> int:
    """Train the demo's models into an MLflow store; return the number of runs.

    Three experiments of ordinary practice: a grid search with child runs whose best model is
    registered under an alias, two competing classifiers, and two regressors. With MLflow 3.15 or
    later there are also a prompt that a classifier uses and an MCP server. Files go below the
    folder `artifacts`, by default to the place that the server chooses. `on_experiment` is called
    with the name of each experiment before it begins.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow

    mlflow.set_tracking_uri(tracking_uri)
    steps = (_wine_grid_search, _breast_cancer_classifiers, _diabetes_regressors)
    for name, step in zip(EXPERIMENTS, steps, strict=True):
        if on_experiment is not None:
            on_experiment(name)
        with _quiet():
            if artifacts is not None and mlflow.get_experiment_by_name(name) is None:
                location = (artifacts / name).resolve().as_uri()
                mlflow.create_experiment(name, artifact_location=location)
            mlflow.set_experiment(name)
            step(mlflow)
    return len(
        mlflow.search_runs(search_all_experiments=True, output_format="list", max_results=1000)
    )


def _requirements() -> list[str]:
    """Return what the models need, which MLflow would otherwise find out in a process for each."""
    import sklearn

    return [f"scikit-learn=={sklearn.__version__}"]


@contextmanager
def _quiet() -> Iterator[None]:
    # MLflow announces schema migrations, package guesses and versions at length.
    noisy = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in noisy]
    for logger in noisy:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(noisy, levels, strict=True):
            logger.setLevel(level)


def _wine_grid_search(mlflow: Any) -> None:
    from sklearn.datasets import load_wine
    from sklearn.model_selection import GridSearchCV, train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    mlflow.set_experiment_tag(NOTE_TAG, "Which of three cultivars a wine comes from.")
    data, target = load_wine(return_X_y=True, as_frame=True)
    retrieval = _recorded_retrieval("svm-grid-search")
    data = retrieval.of(data)
    train, test, train_y, test_y = train_test_split(data, target, random_state=7, stratify=target)
    mlflow.sklearn.autolog(log_models=False, max_tuning_runs=4, silent=True)
    with mlflow.start_run(run_name="svm-grid-search"):
        mlflow.set_tags(retrieval.tags)
        search = GridSearchCV(
            make_pipeline(StandardScaler(), SVC(random_state=7)),
            {"svc__C": [0.3, 3.0], "svc__kernel": ["linear", "rbf"]},
            cv=3,
        )
        search.fit(train, train_y)
        mlflow.log_metric("test_accuracy", search.score(test, test_y))
        mlflow.set_tag(NOTE_TAG, "Grid search over kernel and regularisation.")
        mlflow.sklearn.log_model(
            search.best_estimator_,
            name="wine_svm",
            pip_requirements=_requirements(),
            registered_model_name="wine-classifier",
        )
    mlflow.sklearn.autolog(disable=True, silent=True)
    client = mlflow.MlflowClient()
    client.update_registered_model("wine-classifier", "Tells wine cultivars apart.")
    newest = max(
        client.search_model_versions("name = 'wine-classifier'"), key=lambda v: int(v.version)
    )
    client.set_registered_model_alias("wine-classifier", "champion", newest.version)


def _breast_cancer_classifiers(mlflow: Any) -> None:
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, roc_auc_score
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    mlflow.set_experiment_tag(NOTE_TAG, "Malignant or benign, from cell nuclei.")
    data, target = load_breast_cancer(return_X_y=True, as_frame=True)
    for name, model, params in (
        ("logistic", LogisticRegression(C=0.5), {"C": 0.5}),
        ("tree", DecisionTreeClassifier(max_depth=3, random_state=7), {"max_depth": 3}),
    ):
        pipeline = make_pipeline(StandardScaler(), model)
        retrieval = _recorded_retrieval(name)
        train, test, train_y, test_y = train_test_split(
            retrieval.of(data), target, random_state=7, stratify=target
        )
        with mlflow.start_run(run_name=name) as run:
            mlflow.set_tags(retrieval.tags)
            pipeline.fit(train, train_y)
            mlflow.log_params(params)
            mlflow.log_metric("accuracy", accuracy_score(test_y, pipeline.predict(test)))
            mlflow.log_metric("auc", roc_auc_score(test_y, pipeline.predict_proba(test)[:, 1]))
            mlflow.set_tag("estimator_name", type(model).__name__)
            mlflow.log_input(
                mlflow.data.from_pandas(train, name="breast_cancer_train"), context="training"
            )
            if name == "logistic":
                mlflow.sklearn.log_model(
                    pipeline, name="screening_logistic", pip_requirements=_requirements()
                )
                _register_assets(mlflow, run.info.run_id)


def _diabetes_regressors(mlflow: Any) -> None:
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import Lasso, Ridge
    from sklearn.metrics import mean_absolute_error, r2_score
    from sklearn.model_selection import train_test_split

    mlflow.set_experiment_tag(NOTE_TAG, "Disease progression after one year.")
    data, target = load_diabetes(return_X_y=True, as_frame=True)
    for model in (Ridge(alpha=0.3), Lasso(alpha=0.1)):
        retrieval = _recorded_retrieval(type(model).__name__.lower())
        train, test, train_y, test_y = train_test_split(retrieval.of(data), target, random_state=7)
        with mlflow.start_run(run_name=type(model).__name__.lower()):
            mlflow.set_tags(retrieval.tags)
            model.fit(train, train_y)
            predicted = model.predict(test)
            mlflow.log_param("alpha", model.alpha)
            mlflow.log_metric("mae", mean_absolute_error(test_y, predicted))
            mlflow.log_metric("r2", r2_score(test_y, predicted))
            mlflow.set_tag("estimator_name", type(model).__name__)


def _register_assets(mlflow: Any, run_id: str) -> None:
    if not hasattr(getattr(mlflow, "genai", None), "register_mcp_server"):
        return
    from mlflow.entities import MCPTool

    *_, prompt = (
        mlflow.genai.register_prompt(_PROMPT, text, commit_message=message)
        for message, text in _TEXTS.items()
    )
    mlflow.genai.set_prompt_alias(_PROMPT, "production", prompt.version)
    mlflow.MlflowClient().link_prompt_version_to_run(run_id, prompt)
    tools = [
        MCPTool(name="score_sample", description="Scores the measures of a sample."),
        MCPTool(name="explain_score", description="Names the measures that weigh most."),
    ]
    mlflow.genai.register_mcp_server(_SERVER, status="active", tools=tools)
