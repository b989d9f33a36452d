"""Recipes as YAML text: one back from its model, redacted, and the commented one of `init`."""

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

import yaml
from pydantic import SecretStr

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.recipe.loader import is_typed
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.recipe.secrets import MASK, SubstitutedText, mask_tree


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
    """Return the given keys of `recipe` as YAML, with variables in place of secrets.

    Where these variables hold the secrets, the text loads as an equal recipe.
    """
    given = _escape(recipe.model_dump(exclude_unset=True))
    shown = _with_variables(mask_tree(given), given, "MLCAT")
    return yaml.dump(shown, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


_PREFIXES: Final = {"mlflow": "MLFLOW_TRACKING", "rest": "MLCAT", "datahub-rest": "DATAHUB_GMS"}
"""How the variables begin that a type's credentials are in; others begin with its name."""


def _with_variables(shown: Any, given: Any, prefix: str, key: str = "") -> Any:
    """Return `shown`, which is `given` masked, with `${PREFIX_KEY}` in place of each secret."""
    if isinstance(shown, Mapping):
        kind, inside = str(shown.get("type", "")), f"{prefix}_{key}".rstrip("_")
        return {
            name: _with_variables(value, given[name], _PREFIXES.get(kind, kind))
            if name == "config" and kind
            else _with_variables(value, given[name], inside, name)
            for name, value in shown.items()
        }
    if isinstance(shown, list | tuple):
        return [_with_variables(*pair, prefix, key) for pair in zip(shown, given, strict=True)]
    if not isinstance(shown, str) or MASK not in shown or shown == given:
        return shown
    user, password, name = (
        f"${{{re.sub(r'[^A-Z0-9]', '_', f'{prefix}_{part}'.upper())}}}"
        for part in ("username", "password", key)
    )
    return shown.replace(f"{MASK}@", f"{user}:{password}@").replace(MASK, name)


def _escape(value: Any) -> Any:
    """Return `value` with every `${` that is meant literally as `$${`."""
    if isinstance(value, Mapping):
        return {str(key): _escape(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_escape(item) for item in value]
    if value is None or isinstance(value, bool | int | float | SubstitutedText | SecretStr):
        return value
    return str(value).replace("${", "$${")


_REST_SINK = """\
sink:
  type: rest                     # a catalog service: DataHub, or `mlcat-ingest catalog serve`
  config:
    server: {server}
    token: "${{MLCAT_TOKEN:-}}"    # empty: none
"""

_NO_SINK = """\
# Without a sink, a run on a terminal writes to the embedded catalog (extra `catalog`),
# ./mlcat-catalog.db.
# sink:
#   type: rest                   # a catalog service: DataHub, or `mlcat-ingest catalog serve`
#   config:
#     server: http://127.0.0.1:8080
#     token: "${MLCAT_TOKEN:-}"
"""

DEFAULT_TRACKING_URI = "${MLFLOW_TRACKING_URI:-http://127.0.0.1:5000}"


def starter_recipe(
    *,
    tracking_uri: str | None = None,
    server: str | None = None,
    name: str = "mlflow",
    file: str = "recipe.yml",
) -> str:
    """Return the text of a commented recipe that loads as it is.

    Raises:
        RecipeError: an address holds a user name or a password, which belong in no file.
    """
    for what, address in (("tracking URI", tracking_uri), ("server", server)):
        if address and "@" in address.partition("://")[2].partition("/")[0]:
            raise RecipeError(
                f"the {what} holds a user name or a password, and would put it into the recipe",
                hint="remove it, and set MLFLOW_TRACKING_USERNAME and _PASSWORD, or MLCAT_TOKEN",
            )
    uri = f'"{DEFAULT_TRACKING_URI}"' if tracking_uri is None else _quote(tracking_uri)
    sink = _NO_SINK if server is None else _REST_SINK.format(server=_quote(server))
    template = (files(__package__) / "starter.yml.in").read_text(encoding="utf-8")
    return template.format(file=file, name=_quote(name), tracking_uri=uri, sink=sink)


def _quote(text: str) -> str:
    """Return `text` as a quoted YAML scalar in which nothing is expanded."""
    return json.dumps(text.replace("${", "$${"), ensure_ascii=False)
