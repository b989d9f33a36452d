"""Field types that several configurations share: paths, addresses, patterns, references by URN.

A relative path starts at the recipe's folder. The folder comes by pydantic's validation context,
`{"base_dir": Path}`; without it, as for a configuration made in Python, a relative path is left to
the working directory.
"""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.aspects import OWNERSHIP_TYPES
from mlcat_ingest.metadata.urn import FABRICS, PREFIX, build, check, entity_type_of
from mlcat_ingest.recipe.fields import Public, PublicStr, PublicUrl, RecipeModel, checked_text

BASE_DIR = "base_dir"
"""The key of the validation context that holds the recipe's folder."""

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):")
_SQLITE = re.compile(r"(?P<head>sqlite(?:\+[a-z0-9_]+)?:///)(?P<path>[^?]*)(?P<tail>\?.*)?")
_SAFE = re.compile(r"[^A-Za-z0-9_-]+")
_WORDS = {"databricks", "databricks-uc", "uc"}
"""Addresses of MLflow that are a word and no path."""


def base_dir_of(info: ValidationInfo) -> Path | None:
    """Return the recipe's folder from the validation context, None where there is none."""
    context: Any = info.context
    folder = context.get(BASE_DIR) if isinstance(context, dict) else None
    return folder if isinstance(folder, Path) else None


def file_stem(name: str) -> str:
    """Return a name that every file system takes, another one for each `name`."""
    safe = _SAFE.sub("-", name)[:80]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def resolved_path(path: Path, base_dir: Path | None) -> Path:
    """Return `path` with `~` expanded, from `base_dir` on where it is relative."""
    try:
        path = path.expanduser()
    except RuntimeError:
        raise ValueError("begins with ~, but that home folder does not exist") from None
    return path if base_dir is None or path.is_absolute() else base_dir / path


def resolved_url(url: str, base_dir: Path | None) -> str:
    """Return `url` with a relative sqlite file, `file:` address or bare path made absolute.

    Addresses of servers, in-memory databases and MLflow's `databricks` words are left as they are.
    """
    if base_dir is None or url in _WORDS:
        return url
    if sqlite := _SQLITE.fullmatch(url):
        path = sqlite["path"]
        if not path or path.startswith((":memory:", "file:")):
            return url
        return f"{sqlite['head']}{base_dir.absolute() / path}{sqlite['tail'] or ''}"
    scheme = _SCHEME.match(url)
    if scheme is None:
        return str(resolved_path(Path(url), base_dir))
    rest = url[scheme.end() :]
    if scheme["scheme"].lower() == "file" and not rest.startswith("/"):
        return (base_dir.absolute() / unquote(rest)).as_uri()
    return url


RecipePath = Annotated[
    Path, AfterValidator(lambda path, info: resolved_path(path, base_dir_of(info))), Public()
]
"""A file or folder; a relative one starts at the recipe's folder."""

RecipeUrl = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1),
    AfterValidator(lambda url, info: resolved_url(checked_text(url), base_dir_of(info))),
    PublicUrl(),
]
"""An address of any kind; relative sqlite files and bare paths start at the recipe's folder."""


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error.msg}") from None
    return text


def _fabric(text: str) -> str:
    if text.upper() not in FABRICS:
        raise ValueError(f"is not an environment; use one of {', '.join(sorted(FABRICS))}")
    return text.upper()


def _owner_type(text: str) -> str:
    if text in OWNERSHIP_TYPES:
        return text
    known = ", ".join(sorted(OWNERSHIP_TYPES))
    raise ValueError(
        f"is not an ownership type; use one of {known}, or the URN of an ownershipType"
    )


def urn_validator(
    entity_type: str, *others: str, name: Callable[[str], str] | None = None
) -> Callable[[str], str]:
    """Return a validator that reads a URN of one of these types; `name` reads what is no URN.

    Without it, that is a name of the first type.
    """
    types = (entity_type, *others)

    def read(text: str) -> str:
        try:
            if not text.startswith("urn:"):
                return build(entity_type, text) if name is None else name(text)
            if not text.startswith(PREFIX) or entity_type_of(text) not in types:
                if name is not None:
                    name(text)  # which may say better what is wanted
                wanted = f"the URN of a {' or '.join(types)}"
                raise ValueError(f"is not {wanted}; use a name, or such a URN")
            check(text)
        except InvalidUrnError as error:
            raise ValueError(f"is not a valid {entity_type}: {error}") from None
        return text

    return read


Pattern = Annotated[PublicStr, AfterValidator(_pattern)]
"""A regular expression; it matches from the start of a text, case-sensitively."""

Fabric = Annotated[
    PublicStr, AfterValidator(_fabric), Field(json_schema_extra={"enum": sorted(FABRICS)})
]
"""One of the catalog's 17 environments, in any case."""

OwnerType = Annotated[PublicStr, AfterValidator(urn_validator("ownershipType", name=_owner_type))]
"""A kind of ownership: one of the catalog's own, or the URN of one that its users defined."""

TagRef = Annotated[PublicStr, AfterValidator(urn_validator("tag"))]
"""A tag, by name or URN; read into its URN."""

TermRef = Annotated[PublicStr, AfterValidator(urn_validator("glossaryTerm"))]
"""A glossary term, by id or URN; read into its URN."""

DomainRef = Annotated[PublicStr, AfterValidator(urn_validator("domain"))]
"""A domain, by id or URN; read into its URN."""

OwnerRef = Annotated[PublicStr, AfterValidator(urn_validator("corpuser", "corpGroup"))]
"""A user by name, or a user or group by URN; read into its URN."""

PropertyRef = Annotated[PublicStr, AfterValidator(urn_validator("structuredProperty"))]
"""A structured property, by its qualified name or URN; read into its URN."""


class PatternFilter(RecipeModel):
    """A filter of names: one passes if `allow` matches it and `deny` does not.

    A pattern matches from the start of the name, case-sensitively; end it with `$` for all of it.
    """

    allow: tuple[Pattern, ...] = (".*",)
    """Regular expressions; a name must match one of them."""

    deny: tuple[Pattern, ...] = ()
    """Regular expressions; a name that matches one of them is excluded."""

    def allows(self, name: str) -> bool:
        """Return whether a thing of this name is wanted."""
        return any(re.match(pattern, name) for pattern in self.allow) and not any(
            re.match(pattern, name) for pattern in self.deny
        )
