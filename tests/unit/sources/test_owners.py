"""Users of a source to owners in the catalog: ignored, mapped, cut by a pattern, or as they are."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from mlcat_ingest.errors import RecipeError, RecipeSyntaxError, RecipeValidationError
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.options import Owners, OwnersConfig


def a_config(**values: object) -> OwnersConfig:
    return OwnersConfig.model_validate(values)


def owners(**values: object) -> Owners:
    return Owners(a_config(**values))


def test_users_that_are_no_persons_own_nothing() -> None:
    found = owners(ignore=["unknown", " ROOT "])
    names = (None, "", "  ", "root", "Unknown", "x" * 600)
    assert [found.urn(name) for name in names] == [None] * 6
    assert found.urn(" ann ") == "urn:li:corpuser:ann"
    assert found.urn("a\ud83d") == "urn:li:corpuser:a�"


def test_a_urn_that_a_server_would_leave_out_is_nobodys() -> None:
    found = owners()
    assert found.urn("urn:li:corpuser:ada") == "urn:li:corpuser:ada"
    assert found.urn("urn:li:corpuser:lovelace, ada") is None
    assert found.urn("urn:li:corpGroup:team(x)") is None


def test_the_memory_for_users_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcat_ingest.sources.options._CACHED_USERS", 2)
    found = owners()
    for name in ("a", "b", "c", "a"):
        assert found.urn(name) == f"urn:li:corpuser:{name}"
    assert found.urn.cache_info().currsize <= 2


@pytest.mark.parametrize(
    ("user", "urn"),
    [
        ("jane@acme.com", "urn:li:corpuser:jane"),
        ("jane@other.com", "urn:li:corpuser:jane@other.com"),
        ("SVC-Train@acme.com", "urn:li:corpGroup:ml"),
        ("old.name@acme.com", "urn:li:corpuser:new"),
        ("@acme.com", "urn:li:corpuser:@acme.com"),
    ],
)
def test_a_pattern_and_a_map(user: str, urn: str) -> None:
    found = owners(
        pattern=r"([^@]+)@acme\.com$",
        map={"svc-train": "urn:li:corpGroup:ml", "old.name@acme.com": "new"},
    )
    assert found.urn(user) == urn


def test_a_pattern_without_a_group_takes_all_that_it_matches() -> None:
    assert owners(pattern="[a-z]+").urn("jane42") == "urn:li:corpuser:jane"
    assert owners(pattern="(x)?").urn("jane") is None


@pytest.mark.parametrize("kind", ["DATAOWNER", "urn:li:ownershipType:steward"])
def test_a_kind_of_ownership_is_one_of_the_catalogs_or_of_ones_own(kind: str) -> None:
    (owner,) = owners(type=kind).ownership("urn:li:corpuser:a")["owners"]
    named = {"type": "CUSTOM", "typeUrn": kind} if kind.startswith("urn:") else {"type": kind}
    assert owner == {"owner": "urn:li:corpuser:a", **named}


def test_what_nobody_owns_has_no_owners() -> None:
    assert owners().ownership(None) == {"owners": []}


def test_a_kind_of_ownership_that_is_no_sound_urn_is_refused() -> None:
    with pytest.raises(ValidationError, match="is not a valid ownershipType"):
        a_config(type="urn:li:ownershipType:a,b")


def test_an_unknown_kind_of_ownership_is_refused() -> None:
    with pytest.raises(ValidationError, match="not an ownership type"):
        a_config(type="Boss")


def test_a_map_in_a_file_where_the_recipe_wins(tmp_path: Path) -> None:
    path = tmp_path / "owners.yml"
    path.write_text("map:\n  a: one\n  b: 'urn:li:corpGroup:two'\n")
    found = owners(map_file=path, map={"A": "other"})
    assert [found.urn(name) for name in "ab"] == ["urn:li:corpuser:other", "urn:li:corpGroup:two"]


@pytest.mark.parametrize(
    ("text", "error", "reported"),
    [
        (None, RecipeError, "owners file .*owners.yml: No such file"),
        ("", RecipeSyntaxError, "owners.yml: the file is empty"),
        ("map: {a: b", RecipeSyntaxError, "owners.yml"),
        ("a: b", RecipeValidationError, "map: is required"),
        ("map:\n  a: b\n  a: c", RecipeValidationError, "owners.yml:3: map.a: duplicate key"),
        ("map:\n  a: 'urn:li:tag:x'", RecipeValidationError, "owners.yml:2: map.a: is not the URN"),
    ],
)
def test_a_file_that_cannot_be_used(
    tmp_path: Path, text: str | None, error: type[RecipeError], reported: str
) -> None:
    path = tmp_path / "owners.yml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(error, match=reported):
        owners(map_file=path)


def test_a_relative_file_starts_at_the_recipes_folder(tmp_path: Path) -> None:
    (tmp_path / "owners.yml").write_text("map: {a: b}")
    (tmp_path / "recipe.yml").write_text(
        "source: {type: mlflow, config: {owners: {map_file: owners.yml}}}"
    )
    from mlcat_ingest.workflows.resolve import resolve

    (source,) = resolve(Recipe.load(tmp_path / "recipe.yml")).sources
    config = source.config.owners  # type: ignore[attr-defined]  # the MLflow source's own
    assert Owners(config).urn("a") == "urn:li:corpuser:b"


def test_one_user_has_one_owner_in_any_case() -> None:
    with pytest.raises(ValidationError, match="two owners for `carl`"):
        OwnersConfig.model_validate({"map": {"Carl": "a", "carl": "b"}})
    assert Owners(OwnersConfig.model_validate({"map": {"Carl": "a", "carl": "a"}})).urn("CARL")
