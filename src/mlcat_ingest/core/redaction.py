"""Redaction of addresses: no credentials in them. Standard library only, for training processes."""

import re
from typing import Final
from urllib.parse import urlsplit, urlunsplit

UNREADABLE_URL: Final = "an unreadable address"

# A password may hold any character, so it ends at the last "@". Where the colon may be the one
# before a port, and where there is none, user information ends where the authority does.
_IN_TEXT: Final = re.compile(r"""//((?!\[)[^\s/?#:]*:(?!\d*(?:[\s/?#]|\Z))[^\s"]*|[^\s/?#]*)@""")
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
    """Return `text` with `mask` in place of user name and password, "@" included, in each URL."""
    return _IN_TEXT.sub(f"//{mask}", text) if "@" in text else text


def user_info(url: str) -> tuple[str, str | None]:
    """Return user name and password in `url`, percent-encoded as they are there."""
    match = _user_info(url)
    user, colon, password = match[2].partition(":") if match else ("", "", "")
    return user, password if colon else None


def _user_info(url: str) -> re.Match[str] | None:
    is_http = url.lower().startswith(("http://", "https://"))
    return (_IN_HTTP_URL if is_http else _IN_OTHER_URL).match(url)
