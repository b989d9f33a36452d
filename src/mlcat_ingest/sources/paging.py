"""Listings in pages, for every source: followed to the end, with no page lost and none twice.

A listing gives a token with each page but the last. `follow` asks page by page. `read_ahead` asks
for the next pages while the caller works on the last one.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Generic, NamedTuple, TypeVar

from mlcat_ingest.core.paging import ListingPage, TokenWatch, follow
from mlcat_ingest.core.resources import map_ahead, start_thread

__all__ = ["ListingPage", "drain_slices", "follow", "map_ahead", "read_ahead"]

ReplyT = TypeVar("ReplyT")
ItemT = TypeVar("ItemT")

TokenAfter = Callable[[str | None, int], str | None]
"""Returns the token of the page so many items after that of a token, None where none is known."""


def drain_slices(items: list[ItemT], size: int) -> Iterator[list[ItemT]]:
    """Yield `items` in slices of at most `size`, in order, taking them off the list.

    A slice is freed as soon as the caller drops it, even if the list lives on: a parsed page takes
    twice the memory of its records.
    """
    items.reverse()
    while items:
        yield [items.pop() for _ in range(min(size, len(items)))]


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
    progress = TokenWatch(listing)
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
