"""The secrets of a configuration, which are masked in everything that is printed.

A secret is a value in a field for secrets or under a secret name, the password of an address, or a
value that was substituted into a field that is not public by its type. If a word of letters is a
secret and also in a public place, only its own place is masked: user and password of a database are
often one word, which is part of most names.
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import BaseModel, SecretStr

from mlcat_ingest.core.redaction import redact_url, user_info
from mlcat_ingest.recipe.fields import Duration, Public, below
from mlcat_ingest.recipe.secrets import SECRETS, SubstitutedText, is_secret_name

_SIGNS_IN = re.compile(r"auth|key|sess|sig", re.IGNORECASE)
_WORD = re.compile(r"(?<![^\W_])[A-Za-z]+(?![^\W_])")


def mask_secrets(config: BaseModel, raw: Mapping[str, Any]) -> None:
    """Mask the secrets of a valid `config`, made of `raw`, in all that is printed from now on."""
    SECRETS.add(*_secret_values(config), *_secrets_in_text(type(config), raw))
    SECRETS.add_public((*_public_words(type(config), raw), *_words_of_headers(config)))


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
    elif isinstance(value, str):
        yield from [value] if secret else _secrets_in_url(value)


def _secrets_in_text(annotation: Any, raw: Any) -> Iterator[str]:
    """Yield the secrets in addresses, and values substituted into fields that are not public."""
    for field, text, public in _texts(annotation, raw):
        yield from _secrets_in_url(text)
        if isinstance(text, SubstitutedText) and not (public or _is_public(field)):
            yield from text.pieces


def _public_words(annotation: Any, raw: Any) -> Iterator[str]:
    """Yield the words of letters in fields that are public themselves, without secrets."""
    for field, text, _ in _texts(annotation, raw):
        if not _is_public(field):
            continue
        if "://" in text:
            yield from _WORD.findall(f"{user_info(text)[0]} {redact_url(text)}")
        elif not (isinstance(text, SubstitutedText) and text.names_secret):
            yield from _WORD.findall(text)


def _words_of_headers(value: Any) -> Iterator[str]:
    """Yield the words of letters that are values of headers and the like without a secret name."""
    if isinstance(value, BaseModel):
        for _, item in value:
            yield from _words_of_headers(item)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            secret = is_secret_name(str(name)) or _SIGNS_IN.search(str(name))
            if isinstance(item, SecretStr) and not secret:
                yield from filter(_WORD.fullmatch, [item.get_secret_value()])


def _texts(annotation: Any, raw: Any, *, public: bool = False) -> Iterator[tuple[Any, str, bool]]:
    """Yield the type of each text, the text, and whether what it is part of is public."""
    inside = public or _is_public(annotation)
    if isinstance(raw, Mapping):
        for key, item in raw.items():
            yield from _texts(below(annotation, key), item, public=inside)
    elif isinstance(raw, list | tuple):
        for i, item in enumerate(raw):
            yield from _texts(below(annotation, i), item, public=inside)
    elif isinstance(raw, str):
        yield annotation, raw, public


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
