"""Files that come with a model and name its features: `feature_spec.yaml`, `feast_features.json`.

They are data of somebody else: nothing in them is executed, and what cannot be read is said so.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mlcat_ingest.links.refs import Ref

_STORE: Final = "feature_store"


class UnreadableFileError(ValueError):
    """The file is not what its name promises."""


def spec_features(text: str) -> list[Ref]:
    """Return the features in a `feature_spec.yaml` that are inputs of the model.

    Training data that is in no feature table, and functions on demand, are none.

    Raises:
        UnreadableFileError: it is no such file.

    Source: `feature_spec.yaml` of Databricks' feature engineering client; `input_columns` lists
    one mapping a column, `{<column>: {source, table_name, feature_name, include, …}}`.
    """
    import yaml

    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UnreadableFileError("it is no YAML") from error
    columns = content.get("input_columns") if isinstance(content, Mapping) else None
    if not isinstance(columns, list):
        raise UnreadableFileError("it has no list `input_columns`")
    return list(_spec_refs(columns))


def _spec_refs(columns: list[Any]) -> Iterator[Ref]:
    for entry in columns:
        for name, facts in entry.items() if isinstance(entry, Mapping) else ():
            if not isinstance(facts, Mapping) or facts.get("source") != _STORE:
                continue
            table, feature = facts.get("table_name"), facts.get("feature_name", name)
            wanted = facts.get("include") is not False
            if wanted and isinstance(table, str) and isinstance(feature, str) and table and feature:
                yield Ref(table, feature)


def listed_features(text: str) -> list[str]:
    """Return the references in a `feast_features.json`, as they are spelled there.

    Raises:
        UnreadableFileError: it is no list of texts.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableFileError("it is no JSON") from error
    if not isinstance(content, list) or not all(isinstance(one, str) for one in content):
        raise UnreadableFileError("it is no list of references")
    return content
