"""Items in pieces, and listings in pages: followed to the end, and ended where they cannot end.

A listing gives a token with each page but the last. One that repeats a token, sends empty page
after empty page, or goes on without anything new, is an error.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, TypeVar

from mlcat_ingest.errors import ProtocolMismatchError

ItemT = TypeVar("ItemT")

_REMEMBERED_PAGES: Final = 4
_EMPTY_PAGES: Final = 1_000
"""A service may leave out of each page what its user may not see."""
_STALE_PAGES: Final = 20
_KNOWN_BITS: Final = 2**23
_ENDLESS: Final = "check for a proxy that caches replies, and the server's log"


@dataclass(frozen=True, slots=True)
class ListingPage(Generic[ItemT]):
    """One page: its items, and the token of the next page; None or "" on the last.

    The reader of the page owns the list of items, and may empty it: see `drain_slices`.
    """

    items: list[ItemT]
    token: str | None


def chunks(items: Iterable[ItemT], size: int) -> Iterator[list[ItemT]]:
    """Yield `items` in pieces of at most `size`, each once it is full."""
    left = iter(items)
    while piece := list(islice(left, size)):
        yield piece


class TokenWatch:
    """Checks the tokens of one listing; `listing` names it in errors."""

    def __init__(self, listing: str) -> None:
        """Start before the first page."""
        self._listing = listing
        self._tokens: set[str] = set()
        self._empty = 0

    def check(self, page: ListingPage[ItemT]) -> str | None:
        """Return the next token, None at the end.

        Raises:
            ProtocolMismatchError: the token was there before or is none, or page after page is
                empty.
        """
        if page.token is None or page.token == "":
            return None
        if not isinstance(page.token, str):
            raise ProtocolMismatchError(
                f"{self._listing} returned a page token that is no text: {str(page.token)[:60]!r}",
                hint="check that the address is that of the service itself",
            )
        self._empty = 0 if page.items else self._empty + 1
        if page.token in self._tokens or self._empty >= _EMPTY_PAGES:
            what = "the same page token twice" if page.token in self._tokens else "only empty pages"
            raise ProtocolMismatchError(f"{self._listing} returned {what}", hint=_ENDLESS)
        self._tokens.add(page.token)
        return page.token


def follow(
    fetch: Callable[[str | None], ListingPage[ItemT]], *, listing: str
) -> Iterator[list[ItemT]]:
    """Yield the items of every page, one request at a time.

    `fetch` gets the token of a page, None for the first, and returns the page. `listing` names the
    listing in errors.

    Raises:
        ProtocolMismatchError: the listing repeats a token, or sends too many empty pages.
    """
    progress = TokenWatch(listing)
    token: str | None = None
    while True:
        page = fetch(token)
        token = progress.check(page)
        yield page.items
        if token is None:
            return


class RecentIds:
    """The ids of the last few pages, to leave out rows that a listing by offset repeats.

    It also ends a listing that goes on without anything new, whatever its tokens. For that every id
    sets one of eight million bits, so that a few ids pass for known, but never page after page.

    A row that appears before the place that is read moves the others by one, so the last row of a
    page comes again as the first of the next. Few rows appear meanwhile, so a few pages are enough.
    """

    def __init__(self, listing: str) -> None:
        """Start with no page seen; `listing` names the listing in errors."""
        self._listing = listing
        self._known = bytearray(_KNOWN_BITS // 8)
        self._stale = 0
        self._pages: deque[frozenset[str]] = deque(maxlen=_REMEMBERED_PAGES)

    def new(self, ids: Sequence[str]) -> list[int]:
        """Return the positions in `ids` of those not seen lately, and remember them all.

        Raises:
            ProtocolMismatchError: page after page has no new id.
        """
        self._stale = 0 if not ids or self._mark(ids) else self._stale + 1
        if self._stale >= _STALE_PAGES:
            raise ProtocolMismatchError(
                f"{self._listing} returned {_STALE_PAGES} pages in a row without anything new",
                hint=_ENDLESS,
            )
        page = frozenset(ids)
        known = [seen for seen in self._pages if not seen.isdisjoint(page)]
        self._pages.append(page)
        if not known and len(page) == len(ids):
            return list(range(len(ids)))
        fresh: dict[str, int] = {}
        for position, item in enumerate(ids):
            if not any(item in seen for seen in known):
                fresh.setdefault(item, position)
        return list(fresh.values())

    def _mark(self, ids: Sequence[str]) -> bool:
        """Return whether one of `ids` was never seen, and remember them all."""
        is_new = False
        for item in ids:
            at, bit = divmod(hash(item) % _KNOWN_BITS, 8)
            if not self._known[at] >> bit & 1:
                self._known[at] |= 1 << bit
                is_new = True
        return is_new
