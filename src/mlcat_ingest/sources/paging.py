"""Listings in pages, for every source: followed to the end, with no page lost and none twice.

A listing gives a token with each page but the last. `follow` asks page by page. `read_ahead` asks
for the next pages while the caller works on the last one. Both end a listing that cannot end: one
that repeats a token, or sends empty page after empty page.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from mlcat_ingest.core.resources import start_thread
from mlcat_ingest.errors import ProtocolMismatchError

ReplyT = TypeVar("ReplyT")
ItemT = TypeVar("ItemT")

TokenAfter = Callable[[str | None, int], str | None]
"""Returns the token of the page so many items after that of a token, None where none is known."""

_REMEMBERED_PAGES: Final = 4
_EMPTY_PAGES: Final = 3


@dataclass(frozen=True, slots=True)
class ListingPage(Generic[ItemT]):
    """One page: its items, and the token of the next page; None or "" on the last.

    The reader of the page owns the list of items, and may empty it: see `drain_slices`.
    """

    items: list[ItemT]
    token: str | None


class _TokenWatch:
    """Checks the tokens of one listing; `listing` names it in errors."""

    def __init__(self, listing: str, empty_pages: int = _EMPTY_PAGES) -> None:
        self._listing = listing
        self._empty_pages = empty_pages
        self._tokens: set[str] = set()
        self._empty = 0

    def check(self, page: ListingPage[ItemT]) -> str | None:
        """Return the next token, None at the end.

        Raises:
            ProtocolMismatchError: the token was there before, or page after page is empty.
        """
        if not page.token:
            return None
        self._empty = 0 if page.items else self._empty + 1
        if page.token in self._tokens or self._empty >= self._empty_pages:
            what = "the same page token twice" if page.token in self._tokens else "only empty pages"
            raise ProtocolMismatchError(
                f"{self._listing} returned {what}",
                hint="check for a proxy that caches replies, and the server's log",
            )
        self._tokens.add(page.token)
        return page.token


def drain_slices(items: list[ItemT], size: int) -> Iterator[list[ItemT]]:
    """Yield `items` in slices of at most `size`, in order, taking them off the list.

    A slice is freed as soon as the caller drops it, even if the list lives on: a parsed page takes
    twice the memory of its records.
    """
    items.reverse()
    while items:
        yield [items.pop() for _ in range(min(size, len(items)))]


def follow(
    fetch: Callable[[str | None], ListingPage[ItemT]],
    *,
    listing: str,
    empty_pages: int = _EMPTY_PAGES,
) -> Iterator[list[ItemT]]:
    """Yield the items of every page, one request at a time.

    `fetch` gets the token of a page, None for the first, and returns the page. `listing` names the
    listing in errors; `empty_pages` in a row are too many.

    Raises:
        ProtocolMismatchError: the listing repeats a token, or sends too many empty pages.
    """
    progress = _TokenWatch(listing, empty_pages)
    token: str | None = None
    while True:
        page = fetch(token)
        token = progress.check(page)
        yield page.items
        if token is None:
            return


def map_ahead(
    fetch: Callable[[ItemT], ReplyT], items: Iterable[ItemT], ahead: int
) -> Iterator[ReplyT]:
    """Yield what `fetch` returns for each item, in order, with up to `ahead` requests under way.

    Raises:
        MlcatError: whatever `fetch` raises for an item whose turn has come.
    """
    under_way: deque[Future[ReplyT]] = deque()
    for item in items:
        under_way.append(start_thread(partial(fetch, item), "listing-item"))
        if len(under_way) >= ahead:
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()


def read_ahead(
    fetch: Callable[[str | None, int], ReplyT],
    parse: Callable[[ReplyT], ListingPage[ItemT]],
    size: Callable[[], int],
    *,
    listing: str,
    ahead: int,
    want: int | None = None,
    token_after: TokenAfter | None = None,
) -> Iterator[list[ItemT]]:
    """Yield the items of every page, in order, with up to `ahead` requests under way.

    `fetch` runs in threads of its own and returns a reply unparsed; `parse` runs in the caller's.
    `size` returns how many items to ask for next. The first page is asked for alone, since only
    its token shows whether there are more. With `want`, no page is asked for ahead beyond so many
    items.

    With `token_after`, tokens are foretold, if the first one proves that they can be. A page that
    was asked for by a foretold token is used only if the reply before it names that token, so the
    items are those of following the tokens one by one. Without it the next page alone is asked for
    ahead.

    Raises:
        ProtocolMismatchError: as `follow`; and whatever `fetch` raises for a page whose turn has
            come.

    Cost: at most `ahead - 1` requests beyond the end of the listing, none where the caller is
    slower than the server. Memory for one parsed page and at most `ahead` replies, one where the
    caller is the slower.
    """
    progress = _TokenWatch(listing)
    page = parse(fetch(None, size()))
    token = progress.check(page)
    received = len(page.items)
    if token_after is not None and (not received or token_after(None, received) != token):
        token_after = None
    requests = _Requests(fetch, size, ahead, token_after)
    while True:
        # Ask before handing out what is here: the server works while the caller does.
        if token is not None:
            requests.ask(token, None if want is None else want - received)
        yield page.items
        if token is None:
            return
        # A reply and what it is parsed to are large: neither outlives its use, nor do two meet.
        del page
        page = parse(requests.reply(token))
        received += len(page.items)
        token = progress.check(page)


class _PageRequest(NamedTuple, Generic[ReplyT]):
    """A request under way for so many `items` from `token` on."""

    token: str
    items: int
    reply: Future[ReplyT]


class _Requests(Generic[ReplyT]):
    """The requests under way, for tokens that `token_after` foretells.

    There are as many as keep the server busy, up to `most`: one more after a reply that had to be
    waited for, one less when all had come before the first was needed.
    """

    def __init__(
        self,
        fetch: Callable[[str | None, int], ReplyT],
        size: Callable[[], int],
        most: int,
        token_after: TokenAfter | None,
    ) -> None:
        self._fetch = fetch
        self._size = size
        self._token_after = token_after
        self._most = most
        # Two keep a second worker of the server busy; more show whether they are worth it.
        self._depth = min(2, most)
        self._under_way: deque[_PageRequest[ReplyT]] = deque()

    def ask(self, token: str, want: int | None) -> None:
        """Ask for the page of `token` and those after it, none of them beyond `want` items."""
        while len(self._under_way) < self._depth:
            if want is not None and sum(page.items for page in self._under_way) >= want:
                return
            if self._under_way:
                last = self._under_way[-1]
                foretold = self._token_after and self._token_after(last.token, last.items)
                if not foretold:
                    return
                token = foretold
            self._begin(token)

    def _begin(self, token: str) -> None:
        count = self._size()
        reply = start_thread(lambda: self._fetch(token, count), "listing-page")
        self._under_way.append(_PageRequest(token, count, reply))

    def reply(self, token: str) -> ReplyT:
        """Wait for the reply to `token`; replies to wrongly foretold tokens are thrown away."""
        if self._under_way and self._under_way[0].token != token:
            self._token_after = None
            self._under_way.clear()
        if not self._under_way:
            self._begin(token)
        came = [page.reply.done() for page in self._under_way]
        if not came[0]:
            self._depth = min(self._depth + 1, self._most)
        elif all(came):
            self._depth = max(self._depth - 1, 1)
        return self._under_way.popleft().reply.result()


class RecentIds:
    """The ids of the last few pages, to leave out rows that a listing by offset repeats.

    A row that appears before the place that is read moves the others by one, so the last row of a
    page comes again as the first of the next. Few rows appear meanwhile, so a few pages are enough.
    """

    def __init__(self) -> None:
        """Start with no page seen."""
        self._pages: deque[frozenset[str]] = deque(maxlen=_REMEMBERED_PAGES)

    def new(self, ids: Sequence[str]) -> list[int]:
        """Return the positions in `ids` of those not seen lately, and remember them all."""
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
