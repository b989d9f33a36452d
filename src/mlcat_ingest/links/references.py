"""References to features, as runs spell them and as files of their models list them.

The files are `feature_spec.yaml` and `feast_features.json`. They are data of somebody else: nothing
in them is executed, and one that cannot be read is an error of its own.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from mlcat_ingest.metadata.urn import PREFIX

_VERSION: Final = re.compile(r"@(?:v\d+|latest)?$", re.IGNORECASE)
_FEATURE_URN: Final = f"{PREFIX}mlFeature:("


class Ref(NamedTuple):
    """A feature by the names of its table and its own.

    Without a `namespace`, `table` is either a full name or one without its namespace. `asked_as`
    are names that the table goes by in columns, beside its own.
    """

    table: str
    feature: str
    namespace: str | None = None
    asked_as: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the reference as a message spells it."""
        name = f"{self.table}:{self.feature}"
        return name if self.namespace is None else f"{self.namespace}.{name}"

    @property
    def columns(self) -> Iterator[str]:
        """The names that a column of this feature may have in what a store returned."""
        yield self.feature
        for table in (self.table, *self.asked_as):
            yield f"{table}__{self.feature}"


def feast_ref(text: str, project: str | None) -> Ref | None:
    """Return the reference that `view[@vN]:feature` spells; None for other texts."""
    spelled, _, feature = text.strip().partition(":")
    view = _VERSION.sub("", spelled)
    if not (view and feature):
        return None
    return Ref(view, feature, project, () if spelled == view else (spelled,))


def table_ref(text: str) -> Ref | None:
    """Return the reference that `namespace.table:feature` spells; None for other texts."""
    table, _, feature = text.strip().partition(":")
    return Ref(table, feature) if table and feature else None


def is_feature_urn(text: str) -> bool:
    """Return whether `text` looks like the URN of a feature."""
    return text.startswith(_FEATURE_URN) and text.endswith(")")


def entries(text: str) -> Iterator[str]:
    """Yield the entries of a list, split at commas and line ends that are in no parentheses."""
    depth = start = 0
    for at, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "\n" or (character == "," and depth <= 0):
            depth = 0
            yield from filter(None, [text[start:at].strip()])
            start = at + 1
    yield from filter(None, [text[start:].strip()])


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
        raise UnreadableFileError("not YAML") from error
    columns = content.get("input_columns") if isinstance(content, Mapping) else None
    if not isinstance(columns, list):
        raise UnreadableFileError("the list `input_columns` is missing")
    return list(_spec_refs(columns))


def _spec_refs(columns: list[Any]) -> Iterator[Ref]:
    for entry in columns:
        for name, facts in entry.items() if isinstance(entry, Mapping) else ():
            if not isinstance(facts, Mapping) or facts.get("source") != "feature_store":
                continue
            table, feature = facts.get("table_name"), facts.get("feature_name", name)
            is_ref = isinstance(table, str) and isinstance(feature, str) and table and feature
            if is_ref and facts.get("include") is not False:
                yield Ref(str(table), str(feature))


def listed_features(text: str) -> list[str]:
    """Return the references in a `feast_features.json`, as they are spelled there.

    Raises:
        UnreadableFileError: it is no list of texts.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableFileError("not JSON") from error
    if not isinstance(content, list) or not all(isinstance(item, str) for item in content):
        raise UnreadableFileError("not a list of references")
    return content
