"""`MLmodel` documents, which MLflow keeps as files of models and, before 3, in a tag of the run."""

import json
from collections.abc import Mapping
from typing import Any

from mlcat_ingest.sources.mlflow.values.names import HISTORY_TAG


def logged_history(tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return MLflow 2's list of the models that were logged, nothing where it cannot be read."""
    entries = json_or_none(tags.get(HISTORY_TAG))
    if not isinstance(entries, list):
        return []
    return [entry for entry in entries if isinstance(entry, dict)]


def input_names(model: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the inputs in the signature of an `MLmodel`, which may be none."""
    signature = model.get("signature")
    inputs = signature.get("inputs") if isinstance(signature, Mapping) else None
    return column_names(json_or_none(inputs) if isinstance(inputs, str) else inputs)


def json_or_none(text: str | None) -> Any:
    """Return the JSON value that `text` holds, None where it holds none."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


def column_names(columns: Any) -> frozenset[str]:
    """Return the names in a list of columns, as signatures and schemas of datasets have it."""
    if not isinstance(columns, list):
        return frozenset()
    named = (one.get("name") for one in columns if isinstance(one, dict))
    return frozenset(name for name in named if isinstance(name, str))
