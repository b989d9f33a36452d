"""The sessions of browsers that signed in, and the CSRF tokens of their forms."""

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from mlcat_ingest.catalog.limits import SESSION_SECONDS, SESSIONS

SESSION_COOKIE: Final = "mlcat_session"
"""The cookie that holds the id of a session."""


class Sessions:
    """The open sessions, in the memory of this process: a restart ends all of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without a session."""
        self._clock = clock
        self._key = secrets.token_bytes(32)
        # All live equally long, so the oldest is the first to expire.
        self._expiry_s: OrderedDict[str, float] = OrderedDict()

    def start(self) -> str:
        """Return the id of a new session; beyond `SESSIONS` the oldest ends."""
        session = secrets.token_urlsafe(32)
        self._expiry_s[session] = self._clock() + SESSION_SECONDS
        while len(self._expiry_s) > SESSIONS:
            self._expiry_s.popitem(last=False)
        return session

    def is_open(self, session: str) -> bool:
        """Return whether a session of this id was started, and neither ended nor expired."""
        expiry_s = self._expiry_s.get(session)
        if expiry_s is not None and expiry_s <= self._clock():
            self.end(session)
            return False
        return expiry_s is not None

    def end(self, session: str) -> None:
        """End a session; an unknown id is none."""
        self._expiry_s.pop(session, None)

    def form_token(self, cookie: str) -> str:
        """Return the CSRF token of the forms that a browser with `cookie` sends.

        It follows from a cookie that pages of other sites cannot read, so they cannot send it.
        """
        return hmac.new(self._key, cookie.encode(), sha256).hexdigest()

    def is_form_of(self, cookie: str, given: str) -> bool:
        """Return whether a form with the token `given` was made for a browser with `cookie`."""
        return bool(cookie) and hmac.compare_digest(
            given.encode(), self.form_token(cookie).encode()
        )
