"""Whatever a secret looks like and wherever it stands, nothing that is printed holds it."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.recipe.dump import recipe_to_yaml
from mlcat_ingest.recipe.loader import parse
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.recipe.secrets import SECRETS, mask
from mlcat_ingest.workflows.resolve import ResolvedRecipe, resolve
from support.examples import examples

MARK = "hYp0"
secrets = st.text(
    st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), max_size=20
).map(lambda text: MARK + text)
headers = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20).map(
    lambda text: MARK + text
)

PLACES = [
    "name",
    "sources.0.type",
    "sources.0.config.tracking_uri",
    "sources.0.config.token",
    "sources.0.config.password",
    "sources.0.config.env",
    "sources.0.config.limit",
    "sources.0.config.since",
    "sources.0.config.headers.X-Key",
    "sources.0.config.experiments.allow",
    "sources.0.config.runs.statuses",
    "sources.0.config.unknown_key",
    "sink.type",
    "sink.config.server",
    "sink.config.token",
    "sink.config.timeout_s",
    "sink.config.headers.X",
    "sink.config.ca_bundle",
    "sink.config.tls",
    "evaluate.enabled",
    "evaluate.test_urns",
    "limits.max_new_entities",
    "state.url",
    "unknown",
]


def recipe_with(places: dict[str, Any]) -> str:
    data: dict[str, Any] = {
        "name": "n",
        "sources": [{"type": "mlflow", "config": {}}],
        "sink": {"type": "rest", "config": {}},
    }
    for place, value in places.items():
        *way, last = place.split(".")
        target: Any = data
        for step in way:
            target = target[int(step)] if step.isdigit() else target.setdefault(step, {})
        target[last] = value
    return yaml.safe_dump(data, sort_keys=False)


def printed(text: str, environ: dict[str, str]) -> str:
    """Everything that is printed of a recipe: its error, or its repr, its JSON and its YAML."""
    try:
        resolved: ResolvedRecipe = resolve(Recipe.parse(text, environ=environ, base_dir=Path("/r")))
    except RecipeError as error:
        return f"{error} {error!r} {error.context}"
    recipe = resolved.recipe
    configs = [resolved.sources[0].config, resolved.sink.config if resolved.sink else None]
    shown = [repr(recipe), str(recipe), recipe.model_dump_json(), recipe_to_yaml(recipe)]
    shown += [repr(resolved), *(c.model_dump_json() for c in configs if c is not None)]
    return "\n".join(shown)


@settings(max_examples=examples(150))
@given(
    secret=secrets,
    places=st.lists(st.sampled_from(PLACES), min_size=1, max_size=4, unique=True),
    as_list=st.booleans(),
)
def test_a_substituted_value_leaks_nowhere(
    secret: str, places: list[str], *, as_list: bool
) -> None:
    # A variable whose name is secret: a public field may show what others hold.
    value = ["${S_TOKEN}"] if as_list else "${S_TOKEN}"
    text = recipe_with(dict.fromkeys(places, value))
    SECRETS.clear()
    assert MARK not in printed(text, {"S_TOKEN": secret})


@settings(max_examples=examples(150))
@given(secret=headers)
def test_a_secret_field_leaks_nowhere(secret: str) -> None:
    literal = secret.replace("${", "$${")
    places = {
        "sources.0.config.token": literal,
        "sources.0.config.headers.X": literal,
        "sink.config.token": literal,
        "sink.config.headers.X": literal,
    }
    SECRETS.clear()
    text = printed(recipe_with(places), {})
    assert MARK not in mask(text)
    assert mask(f"the server said: {secret}") == "the server said: ***"
    assert json.dumps({"a": secret})[1:-1].replace(json.dumps(secret)[1:-1], "***") == mask(
        json.dumps({"a": secret})[1:-1]
    )


words = st.sampled_from(["mlflow", "postgres", "feast", "dev", "prod", "team", "churn", "default"])


@settings(max_examples=examples(150))
@given(user=words, host=words, port=st.integers(1, 65535), database=words, own=words | secrets)
def test_only_the_place_of_a_secret_is_masked(
    user: str, host: str, port: int, database: str, own: str
) -> None:
    """A password that is the name of the user or database is a common set-up."""
    environ = {
        "DB_USER": user,
        "DB_PASSWORD": quote(own, safe=""),
        "DB_HOST": host,
        "DB_PORT": str(port),
        "DB_NAME": database,
    }
    address = "${DB_USER}:${DB_PASSWORD}@${DB_HOST}:${DB_PORT}/${DB_NAME}"
    places = {
        "sources.0.config.tracking_uri": f"postgresql+psycopg://{address}",
        "sources.0.config.headers.X-Team": "${DB_NAME}",
        "sink.config.server": f"http://{host}:${{DB_PORT}}/${{DB_NAME}}",
        "state.url": f"postgresql://{address}",
    }
    SECRETS.clear()
    text = printed(recipe_with(places), environ)
    assert MARK not in text
    urn = f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{user}.{database}_{host}_{port},PROD)"
    line = f"{urn} postgresql://{host}:{port}/{database}"
    assert mask(line) == line
    if own.startswith(MARK):
        assert MARK not in mask(f"{line} refused {own} {quote(own, safe='')} {json.dumps(own)}")


@settings(max_examples=examples(200))
@given(secret=secrets)
def test_a_value_adds_nothing_to_the_structure(secret: str) -> None:
    data = recipe_with({"sources.0.config.tracking_uri": "${S}"})
    recipe = Recipe.parse(data, environ={"S": secret})
    assert recipe.sources[0].config == {"tracking_uri": secret}


@settings(max_examples=examples(200))
@given(
    value=st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(10**12), 10**12)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(codec="utf-8", exclude_categories=["Cs"])),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_what_is_shown_loads_as_the_same(value: Any) -> None:
    SECRETS.clear()
    recipe = Recipe.parse(
        json.dumps({"source": {"type": "x", "config": {"value": value}}}).replace("${", "$${"),
        environ={},
        base_dir=Path("/r"),
    )
    assert recipe.sources[0].config == {"value": value}
    again = Recipe.parse(recipe_to_yaml(recipe), environ={}, base_dir=Path("/r"))
    assert again.sources[0].config == recipe.sources[0].config


@settings(max_examples=examples(300))
@given(text=st.text(st.sampled_from("ab:-[]{}&*!|>'\"#%@`,?~ \n\t${}<0.1eX"), max_size=60))
def test_any_text_is_data_or_a_recipe_error(text: str) -> None:
    try:
        parse(text, "r.yml")
    except RecipeError as error:
        assert str(error).startswith("r.yml")  # noqa: PT017 - most texts raise nothing
