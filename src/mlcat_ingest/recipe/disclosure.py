"""Redaction by field: a substituted value stays secret unless it fills a public field."""

from collections.abc import Iterator, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pydantic import BaseModel, SecretStr

from mlcat_ingest.core.redaction import user_info
from mlcat_ingest.recipe.fields import Duration, Public, PublicUrl, below, members
from mlcat_ingest.recipe.secrets import SECRETS, SubstitutedText, is_secret_name


def disclose(config: BaseModel, raw: Mapping[str, Any]) -> None:
    """Settle what to mask of a valid `config`, made of `raw`, in all that is printed from now on.

    Substituted values in public fields are no longer masked, unless their variable's name says
    that they are secret; the values of secret fields are, whether substituted or not.
    """
    SECRETS.acquit(*_public_values(type(config), raw))
    SECRETS.add(*_secret_values(config))
    SECRETS.add(*_secrets_in_urls(type(config), raw))


def _public_values(model: type[BaseModel], raw: Mapping[str, Any]) -> Iterator[str]:
    for value, marks in _leaves(model, raw):
        if not isinstance(value, SubstitutedText) or SecretStr in marks:
            continue
        if PublicUrl in marks:
            shown = _shown_of_url(str(value))
            yield from (piece for piece in value.pieces if piece in shown)
        elif Public in marks:
            yield from value.pieces


def _secrets_in_urls(model: type[BaseModel], raw: Mapping[str, Any]) -> Iterator[str]:
    for value, marks in _leaves(model, raw):
        if PublicUrl in marks and isinstance(value, str):
            _, password = user_info(value)
            if password:
                yield from (password, unquote(password))
            query = "" if (parts := _split(value)) is None else parts.query
            yield from (v for name, v in parse_qsl(query) if is_secret_name(name))


def _leaves(
    annotation: Any, raw: Any, marks: frozenset[type] = frozenset()
) -> Iterator[tuple[Any, frozenset[type]]]:
    """Yield every value below `raw` that is no mapping or list, with the marks of its fields."""
    marks |= _marks(annotation)
    if isinstance(raw, Mapping):
        for key, item in raw.items():
            yield from _leaves(below(annotation, key), item, marks)
    elif isinstance(raw, list | tuple):
        for i, item in enumerate(raw):
            yield from _leaves(below(annotation, i), item, marks)
    else:
        yield raw, marks


def _marks(annotation: Any) -> frozenset[type]:
    """Return what a type annotation says of the secrecy of a value."""
    found = set(_markers(annotation))
    kinds = [member for member in members(annotation) if member is not NoneType]
    if SecretStr in kinds:
        found.add(SecretStr)
    if kinds and all(map(_is_narrow, kinds)):
        found.add(Public)
    return frozenset(found)


def _markers(annotation: Any) -> Iterator[type]:
    """Yield the types of what `Annotated` adds, inside unions too."""
    if get_origin(annotation) is Annotated:
        yield from (type(mark) for mark in annotation.__metadata__)
        yield from _markers(get_args(annotation)[0])
    elif get_origin(annotation) in {Union, UnionType}:
        for part in get_args(annotation):
            yield from _markers(part)


def _is_narrow(kind: Any) -> bool:
    """Say whether a value of that type is one of few, and so no secret, such as a number."""
    if get_origin(kind) is Literal:
        return True
    return isinstance(kind, type) and issubclass(kind, (bool, int, float, Enum, Duration))


def _shown_of_url(url: str) -> set[str]:
    """Return what of an address may be printed: all of it as one piece, its host and its port."""
    parts = _split(url)
    if parts is None:
        return {url}
    host = parts.netloc.rpartition("@")[2]
    return {url, host, *host.rsplit(":", 1)}


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None


def _secret_values(value: Any, *, secret: bool = False) -> Iterator[str]:
    """Yield the text of every secret field, and of every text under a secret name."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel | Mapping):
        items = value if isinstance(value, BaseModel) else value.items()
        for name, item in items:
            yield from _secret_values(item, secret=secret or is_secret_name(str(name)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secret_values(item, secret=secret)
    elif isinstance(value, str) and secret:
        yield value
