"""Owners: from the users that a source names to owners and ownership types of the catalog."""

import hashlib
import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from mlcat_ingest.core.text import whole_characters
from mlcat_ingest.errors import InvalidUrnError, RecipeError
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.urn import check, corp_user
from mlcat_ingest.recipe.fields import PublicStr, RecipeModel
from mlcat_ingest.recipe.loader import MAX_BYTES, parse
from mlcat_ingest.recipe.problems import Origin
from mlcat_ingest.recipe.validate import validate_config
from mlcat_ingest.recipe.values import OwnerRef, OwnerType, Pattern, RecipePath

_URNS: Final = ("urn:li:corpuser:", "urn:li:corpGroup:")
_NOBODY: Final[Aspect] = {"owners": []}
_CACHED_USERS: Final = 10_000


def _unambiguous(owners: dict[str, str]) -> dict[str, str]:
    known: dict[str, str] = {}
    for name, urn in owners.items():
        if known.setdefault(name.lower(), urn) != urn:
            raise ValueError(f"has two owners for `{name}`, since names ignore case; keep one")
    return owners


_OwnerMap = Annotated[dict[PublicStr, OwnerRef], AfterValidator(_unambiguous)]


class OwnersConfig(RecipeModel):
    """How users in a source map to owners in the catalog.

    A user is looked up in `map` and `map_file`, first by the whole name, then by the part that
    `pattern` matches. Other users become users of the catalog with that name. The URN of a user or
    group is used as it is.
    """

    type: OwnerType = "TECHNICAL_OWNER"
    """Ownership type: a built-in type of the catalog, such as DATAOWNER, or the URN of a custom
    ownership type."""

    ignore: tuple[PublicStr, ...] = ("unknown",)
    """User names, in any case, that never become owners; an empty name never does."""

    pattern: Pattern | None = None
    """A regular expression whose first group, or whole match without a group, is the user's name in
    the catalog, for example `([^@]+)@acme\\.com`. A name that does not match is used whole."""

    map: _OwnerMap = Field(default_factory=dict)
    """User names, in any case, mapped to names in the catalog or URNs of users and groups."""

    map_file: RecipePath | None = None
    """A YAML or JSON file with the key `map`. Entries in the recipe take precedence."""

    def map_digest(self) -> str:
        """Return a digest of the map file, empty without one."""
        path = self.map_file
        return "" if path is None else hashlib.sha256(path.read_bytes()).hexdigest()


class _MapFile(RecipeModel):
    """The content of a `map_file`."""

    map: _OwnerMap


class Owners:
    """Turns users into owners. Safe for threads; what it found out of a name it remembers."""

    def __init__(self, config: OwnersConfig | None = None) -> None:
        """Read the map file, if there is one.

        Raises:
            RecipeError: the file cannot be read.
            RecipeSyntaxError: it is not YAML or JSON.
            RecipeValidationError: its `map` is none of names to names.
        """
        config = config or OwnersConfig()
        more = {} if config.map_file is None else _read_map(Path(config.map_file))
        self._map = {name.lower(): urn for name, urn in {**more, **config.map}.items()}
        self._ignored = frozenset(name.lower() for name in config.ignore)
        self._pattern = re.compile(config.pattern) if config.pattern else None
        named = config.type.startswith("urn:")
        self._type = {"type": "CUSTOM", "typeUrn": config.type} if named else {"type": config.type}
        self._urns: dict[str, str | None] = {}

    def urn(self, user: str | None) -> str | None:
        """Return the URN of the owner for a user name, None for an ignored or unusable name."""
        if not user:
            return None
        try:
            return self._urns[user]
        except KeyError:
            pass
        if len(self._urns) >= _CACHED_USERS:
            self._urns.clear()
        urn = self._urns[user] = self._looked_up(whole_characters(user).strip())
        return urn

    def _looked_up(self, name: str) -> str | None:
        if not name or name.lower() in self._ignored:
            return None
        mapped = self._map.get(name.lower())
        if mapped is not None:
            return mapped
        try:
            if name.startswith(_URNS):
                check(name)
                return name
            match = self._pattern.match(name) if self._pattern else None
            if match is not None:
                name = (match[1] if match.re.groups else match[0]) or ""
                mapped = self._map.get(name.lower())
            return mapped or corp_user(name)
        except InvalidUrnError:
            return None

    def ownership(self, urn: str | None) -> Aspect:
        """Return the `ownership` aspect with the owner `urn`, empty for None."""
        return _NOBODY if urn is None else {"owners": [{"owner": urn, **self._type}]}


def _read_map(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise RecipeError(
            f"cannot read the owners file {path}: {error.strerror}",
            hint="correct `owners.map_file` in the recipe",
        ) from None
    parsed = parse(content, str(path))
    origin = Origin(str(path), path.parent, parsed.lines)
    map_file, problems = validate_config(_MapFile, parsed.data, (), origin)
    if map_file is None or parsed.problems:
        raise origin.error([*parsed.problems, *problems])
    return map_file.map
