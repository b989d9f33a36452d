"""The secrets of a configuration, which are masked in everything that is printed.

A secret is a value in a field for secrets or under a secret name, the password of an address, or a
value that was substituted into a field that is not public by its type.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import BaseModel, SecretStr

from mlcat_ingest.core.redaction import user_info
from mlcat_ingest.recipe.fields import Duration, Public, below
from mlcat_ingest.recipe.secrets import SECRETS, SubstitutedText, is_secret_name


def mask_secrets(config: BaseModel, raw: Mapping[str, Any]) -> None:
    """Mask the secrets of a valid `config`, made of `raw`, in all that is printed from now on."""
    SECRETS.add(*_secret_values(config), *_secrets_in_text(type(config), raw))


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


def _secrets_in_text(annotation: Any, raw: Any, *, public: bool = False) -> Iterator[str]:
    """Yield the secrets in addresses, and values substituted into fields that are not public."""
    public = public or _is_public(annotation)
    if isinstance(raw, Mapping):
        for key, item in raw.items():
            yield from _secrets_in_text(below(annotation, key), item, public=public)
    elif isinstance(raw, list | tuple):
        for i, item in enumerate(raw):
            yield from _secrets_in_text(below(annotation, i), item, public=public)
    elif isinstance(raw, str):
        yield from _secrets_in_url(raw)
        if isinstance(raw, SubstitutedText) and not public:
            yield from raw.pieces


def _is_public(annotation: Any) -> bool:
    """Return whether no value of that type is a secret: it is marked so, or one of few."""
    origin = get_origin(annotation)
    if origin is Annotated:
        marked = any(isinstance(mark, Public) for mark in annotation.__metadata__)
        return marked or _is_public(get_args(annotation)[0])
    if origin in {Union, UnionType}:
        return all(map(_is_public, get_args(annotation)))
    if isinstance(annotation, type):
        return issubclass(annotation, (bool, int, float, Enum, Duration, NoneType))
    return origin is Literal


def _secrets_in_url(text: str) -> Iterator[str]:
    _, password = user_info(text)
    if password:
        yield from (password, unquote(password))
    try:
        query = urlsplit(text).query
    except ValueError:
        return
    yield from (value for name, value in parse_qsl(query) if is_secret_name(name))
