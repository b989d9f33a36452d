"""Redaction of addresses: no credentials in them. Standard library only, for training processes."""

import re
from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

UNREADABLE_URL: Final = "an unreadable address"

# A password may hold any character, so it ends at the last "@". Where the colon may be the one
# before a port, and where there is none, user information ends where the authority does.
# On Azure the container of a file stands where others have a user.
_USER: Final = re.compile(
    r"(?i:(abfss?|wasbs?):)?//((?!\[)[^\s/?#:]*:(?!\d*(?:[\s/?#]|\Z)).*|[^\s/?#]*)@"
)
_OF_ORACLE: Final = re.compile(r"(?i)(jdbc:oracle:\w+:).+@")
_ADDRESS: Final = re.compile(r"[a-zA-Z][\w+.:-]*://\S*")
_WORD: Final = re.compile(r'[^\s"]+')

_NAME_CHAR: Final = r"[^\s=&;?#\"/<>\\]"
# Some writers of JSON escape "&" and "=".
_AND: Final = r"(?:[&;]|\\u0026)"


def _params(name: str) -> re.Pattern[str]:
    param = rf"(?:{name})(?:=|\\u003d)[^&;#\s\"<>\\]*"
    return re.compile(rf"([?#]|{_AND}){param}(?:{_AND}{param})*({_AND})?", re.IGNORECASE)


_SECRET_NAMES: Final = (
    rf"{_NAME_CHAR}{{0,64}}?"
    r"(?:token(?![a-z])|passw(?:or)?d|passphrase|pwd|secret|signature|credential|authorization"
    r"|oauth|cookie|jwt|sess(?:ion)?[-_.]?id|access[-_.]?id"
    r"|(?:api|access|private|account|shared|subscription|auth)(?:[-_.]|%2D|%5F)?key)"
    rf"{_NAME_CHAR}{{0,64}}|sig|sas|key|auth|pass|code|otp|ticket|assertion|samlresponse"
)
_SECRET_PARAMS: Final = _params(_SECRET_NAMES)
_USER_PARAMS: Final = _params(r"uid|user(?:[-_]?(?:name|id))?")
_OF_JDBC: Final = re.compile(r'(?i)jdbc:[^\s"]*')
# A value with two slashes that are percent-encoded, up to four times.
_ENCODED: Final = re.compile(
    r'(?<==)[^=&;#\s"<>\\]*?%(?:25){0,3}2F%(?:25){0,3}2F[^&;#\s"<>\\]*', re.IGNORECASE
)
_IN_HTTP_URL: Final = re.compile(
    r"([^/?#]*//)((?!\[)[^/?#:]*:(?!\d*(?:[/?#]|\Z)).*|[^/?#]*)@", re.DOTALL
)
# SQLAlchemy reads digits after the colon as a password too, if an "@" follows.
_IN_OTHER_URL: Final = re.compile(r"([^/?#]*//)((?!\[)[^/?#:]*:.*|[^/?#]*)@", re.DOTALL)


def redact_url(url: str) -> str:
    """Return `url` without user name, password, query and fragment."""
    match = _user_info(url)
    bare = url if match is None else match[1] + url[match.end() :]
    try:
        parts = urlsplit(bare)
    except ValueError:
        return UNREADABLE_URL
    if not parts.netloc:
        # sqlite:///path has no host; urlunsplit would drop one of its slashes.
        return bare.partition("?")[0]
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))


def redact_urls(text: str, mask: str = "") -> str:
    """Return `text` without the credentials of the addresses in it.

    `mask` replaces user name and password, "@" included; secret parameters are left out.
    """
    if "/" not in text:
        return text
    if "@" in text:
        words = _ADDRESS if _ADDRESS.fullmatch(text) else _WORD
        text = words.sub(lambda match: _without_user(match[0], mask), text)
    if "%" in text:
        text = _ENCODED.sub(lambda match: _encoded_redacted(match[0], mask), text)
    text = _OF_JDBC.sub(lambda match: _USER_PARAMS.sub(_without_params, match[0]), text)
    return _SECRET_PARAMS.sub(_without_params, text)


def _may_have_credentials(data: bytes) -> bool:
    """Return whether a text in this JSON may be another one without its credentials."""
    # Without these `redact_urls` replaces nothing. One byte is found many times as fast as several.
    if b"@" in data or b"%" in data:
        return True
    is_escaped = b"\\" in data
    has_params = any(map(data.__contains__, b"?#&;")) or (is_escaped and b"u0026" in data)
    return has_params and (b"=" in data or (is_escaped and b"u003" in data))


def redact_tree(value: Any, json_of: Callable[[Any], bytes | None] = lambda _: None) -> Any:
    """Return a value of mappings and lists with all its texts redacted, but for URNs.

    `json_of` returns the JSON of a value, None where there is none.

    Cost: a look at the JSON, and a look for a slash in each text; what does not change is not
    copied.
    """
    if isinstance(value, str):
        return value if "/" not in value or value.startswith("urn:li:") else redact_urls(value)
    data = json_of(value)
    if data is not None and not _may_have_credentials(data):
        return value
    if isinstance(value, (dict, Mapping)):  # dict first: the check of an abstract class is slow
        changed = {
            key: bare
            for key, item in value.items()
            if (bare := redact_tree(item, json_of)) is not item
        }
        return {**value, **changed} if changed else value
    if isinstance(value, Sequence):
        bare_items = [redact_tree(item, json_of) for item in value]
        is_same = all(map(is_, bare_items, value))
        return value if is_same else bare_items
    return value


MASK: Final = "***"

_SECRET_NAME: Final = re.compile(
    rf"{_SECRET_NAMES}|(?:.*[-_.])?(?:auth|authentication|pass|pat)", re.IGNORECASE
)
_SCHEME: Final = re.compile(r"\b(Bearer|Basic)\s+[^\s\"{}$]+", re.IGNORECASE)
_ASSIGNED: Final = re.compile(
    rf"(?<![^\s\"'])((?:{_SECRET_NAMES})=|--(?:{_SECRET_NAMES})\s+)"
    r"(?:\"[^\"{}$]+\"|'[^'{}$]+'|[^\s\"'{}$]+)",
    re.IGNORECASE,
)
_PLACEHOLDER: Final = re.compile(r"(?:(?:Bearer|Basic)\s+)?\$?\{[^{}]*\}|", re.IGNORECASE)
_OF_INPUT: Final = frozenset({"value", "default", "choices", "placeholder", "variables"})
"""The fields of an input, such as a header, that hold what it is set to.

Source: `Input` in the schema of a server.json of the Model Context Protocol."""
_ABOUT_INPUT: Final = frozenset({"description", "format", "name", "type"})


def redact_secrets(value: Any) -> Any:
    """Return a value of JSON with `MASK` for its secrets, and its addresses without credentials.

    A secret is what a field with the name of one holds, what an input of such a name, or with
    `isSecret`, is set to, and what follows `Bearer`, `TOKEN=` or `--token` in a text, or the option
    `--token` in a list of arguments. Placeholders stay.
    """
    if isinstance(value, str):
        text = _SCHEME.sub(rf"\1 {MASK}", redact_urls(value))
        return _ASSIGNED.sub(rf"\1{MASK}", text)
    if isinstance(value, Mapping):
        is_secret = value.get("isSecret") or _is_secret(value.get("name"))
        return {
            key: _masked(item)
            if _is_secret(key) or (is_secret and key in _OF_INPUT)
            else redact_secrets(item)
            for key, item in value.items()
        }
    if isinstance(value, Sequence):
        of_secrets = [False, *map(_takes_secret, value)]
        return [
            _masked(item) if is_secret else redact_secrets(item)
            for item, is_secret in zip(value, of_secrets, strict=False)
        ]
    return value


def _takes_secret(argument: Any) -> bool:
    """Return whether the next argument is the secret of this one, an option such as `--token`."""
    text = argument.get("value") if isinstance(argument, Mapping) else argument
    return isinstance(text, str) and text.startswith("-") and _is_secret(text.lstrip("-"))


def _is_secret(name: object) -> bool:
    return isinstance(name, str) and _SECRET_NAME.fullmatch(name) is not None


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return value if _PLACEHOLDER.fullmatch(value) else MASK
    if isinstance(value, Mapping):
        return {
            key: redact_secrets(item) if key in _ABOUT_INPUT else _masked(item)
            for key, item in value.items()
        }
    if isinstance(value, Sequence):
        return [_masked(item) for item in value]
    return value if value is None or isinstance(value, bool) else MASK


def _without_user(word: str, mask: str) -> str:
    # Cut behind the last "@", a word is searched in linear time.
    before, at, after = word.rpartition("@")
    before = _OF_ORACLE.sub(rf"\1{mask or at}", before + at)
    return _USER.sub(lambda match: _replacement(match, mask), before) + after


def _replacement(match: re.Match[str], mask: str) -> str:
    scheme, user = match.groups()
    return f"{scheme}://{user.partition(':')[0]}@" if scheme else f"//{mask}"


def _encoded_redacted(value: str, mask: str) -> str:
    decoded = unquote(value)
    again = redact_urls if "//" in decoded else _encoded_redacted
    redacted = again(decoded, mask)
    return value if redacted == decoded else quote(redacted, safe="*")


def _without_params(match: re.Match[str]) -> str:
    before, after = match.groups()
    return before if after else ""


def user_info(url: str) -> tuple[str, str | None]:
    """Return user name and password in `url`, percent-encoded as they are there."""
    match = _user_info(url)
    user, colon, password = match[2].partition(":") if match else ("", "", "")
    return user, password if colon else None


def _user_info(url: str) -> re.Match[str] | None:
    is_http = url.lower().startswith(("http://", "https://"))
    return (_IN_HTTP_URL if is_http else _IN_OTHER_URL).match(url)
