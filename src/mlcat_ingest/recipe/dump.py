"""A recipe back to YAML, redacted."""

from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import SecretStr

from mlcat_ingest.recipe.loader import is_typed
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.recipe.secrets import SubstitutedText, mask_tree


class _Dumper(yaml.SafeDumper):
    """Quotes what our loader would not read as text, beside what YAML 1.1 would not."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write everything out, however often it occurs."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = '"' if is_typed(value) or not value.isprintable() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def recipe_to_yaml(recipe: Recipe) -> str:
    """Return the given keys of `recipe` as YAML, with secrets masked.

    Without secrets in it, the text loads as an equal recipe.
    """
    given = recipe.model_dump(exclude_unset=True)
    return yaml.dump(
        mask_tree(_escape(given)), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
    )


def _escape(value: Any) -> Any:
    """Return `value` with every `${` that is meant literally as `$${`."""
    if isinstance(value, Mapping):
        return {str(key): _escape(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_escape(item) for item in value]
    if value is None or isinstance(value, bool | int | float | SubstitutedText | SecretStr):
        return value
    return str(value).replace("${", "$${")
