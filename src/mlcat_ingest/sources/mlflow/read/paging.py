"""Following page tokens to the end of a listing: no page lost, none twice, no endless loop.

MLflow's own servers page by offset: their token is the base64 of `{"offset": n}`. Once the first
token shows that, the next ones can be foretold, and pages asked for before their turn. A page
asked for ahead is used only if the reply before it names exactly the token it was asked with, so
what is read is what following the tokens one by one reads. Any other kind of token is followed
one by one, the next page being asked for while the last one is worked on.
"""

import base64
import binascii
import json
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

_REMEMBERED_PAGES: Final = 4
_EMPTY_PAGES: Final = 3


@dataclass(frozen=True, slots=True)
class ListingPage(Generic[ItemT]):
    """One page: its items, undecoded, and the token of the next; None or "" on the last.

    The items are for whoever reads the page to use up: see `drain_slices`.
    """

    items: list[ItemT]
    token: str | None


class TokenWatch:
    """Watches one listing's tokens; `listing` names it in errors."""

    def __init__(self, listing: str, empty_pages: int = _EMPTY_PAGES) -> None:
        """Start with no page seen; `empty_pages` in a row are too many."""
        self._listing = listing
        self._empty_pages = empty_pages
        self._tokens: set[str] = set()
        self._empty = 0

    def check(self, page: ListingPage[ItemT]) -> str | None:
        """Return the next token, None at the end.

        Raises:
            ProtocolMismatchError: the token was there before, or page after page is empty; going
                on would never end.
        """
        if not page.token:
            return None
        self._empty = 0 if page.items else self._empty + 1
        if page.token in self._tokens or self._empty >= self._empty_pages:
            what = "the same page token twice" if page.token in self._tokens else "only empty pages"
            raise ProtocolMismatchError(
                f"MLflow's listing of {self._listing} returned {what}",
                hint="check for a proxy that caches replies, and the server's log",
            )
        self._tokens.add(page.token)
        return page.token


def drain_slices(items: list[ItemT], size: int) -> Iterator[list[ItemT]]:
    """Yield `items` in slices of at most `size`, in order, taking them off the list.

    So a slice is freed as soon as the caller drops it, whoever else still holds the list: a
    parsed page takes twice the memory of the records that come of it.
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

    Raises:
        ProtocolMismatchError: the listing does not get on.
    """
    progress = TokenWatch(listing, empty_pages)
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
        under_way.append(start_thread(partial(fetch, item), "mlflow-item"))
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
) -> Iterator[list[ItemT]]:
    """Yield the items of every page, in order, with up to `ahead` requests under way.

    `fetch` runs in threads of its own and returns a reply unparsed; `parse` runs in the caller's.
    `size` says how many items to ask for next. The first page is asked for alone, since only its
    token shows whether there are more. A caller that needs only `want` items says so, and no page
    is asked for ahead beyond them.

    Raises:
        ProtocolMismatchError: the listing does not get on; and whatever `fetch` raises for a page
            whose turn has come.

    Cost: at most `ahead - 1` requests beyond the end of the listing, none where the caller is
    slower than the server. Memory for one parsed page and the replies that wait, at most `ahead`,
    and one where the caller is the slower.
    """
    progress = TokenWatch(listing)
    page = parse(fetch(None, size()))
    token = progress.check(page)
    received = len(page.items)
    foretold = received > 0 and token is not None and offset_of(token) == received
    requests = _Requests(fetch, size, ahead, foretold=foretold)
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
    """One request under way: for so many `items` from where `token` stands."""

    token: str
    items: int
    reply: Future[ReplyT]


class _Requests(Generic[ReplyT]):
    """The requests under way; the next token is as many items on as were asked for, if `foretold`.

    There are as many as keep the server busy, up to `most`: one more after a reply that had to be
    waited for, one less when all had come before the first was needed.
    """

    def __init__(
        self,
        fetch: Callable[[str | None, int], ReplyT],
        size: Callable[[], int],
        most: int,
        *,
        foretold: bool,
    ) -> None:
        self._fetch = fetch
        self._size = size
        self._foretold = foretold
        self._most = most
        # Two keep a second worker of the server busy; more show whether they are worth it.
        self._depth = min(2, most)
        self._under_way: deque[_PageRequest[ReplyT]] = deque()

    def ask(self, token: str, want: int | None) -> None:
        """Ask for the page of `token` and those after it, none of them beyond `want` items."""
        while len(self._under_way) < self._depth:
            if want is not None and sum(one.items for one in self._under_way) >= want:
                return
            if self._under_way:
                if not self._foretold:
                    return
                last = self._under_way[-1]
                token = offset_token((offset_of(last.token) or 0) + last.items)
            self._begin(token)

    def _begin(self, token: str) -> None:
        count = self._size()
        reply = start_thread(lambda: self._fetch(token, count), "mlflow-page")
        self._under_way.append(_PageRequest(token, count, reply))

    def reply(self, token: str) -> ReplyT:
        """Wait for the reply to `token`; what was asked for in its stead is thrown away."""
        if self._under_way and self._under_way[0].token != token:
            self._foretold = False
            self._under_way.clear()
        if not self._under_way:
            self._begin(token)
        came = [one.reply.done() for one in self._under_way]
        if not came[0]:
            self._depth = min(self._depth + 1, self._most)
        elif all(came):
            self._depth = max(self._depth - 1, 1)
        return self._under_way.popleft().reply.result()


def offset_token(offset: int) -> str:
    """Return MLflow's page token for an offset.

    Source: `SearchUtils.create_page_token` of MLflow 1.x to 3.17.
    """
    return base64.b64encode(json.dumps({"offset": offset}).encode()).decode()


def token_at(offset: int) -> str | None:
    """Return what to ask for a page by that begins at an offset: MLflow refuses a token of 0."""
    return offset_token(offset) if offset else None


def offset_of(token: str) -> int | None:
    """Return the offset that `token` stands for, None where it is of another kind."""
    try:
        offset = json.loads(base64.b64decode(token, validate=True))["offset"]
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None
    # Only a token that we would write the same way can be foretold.
    return offset if isinstance(offset, int) and offset_token(offset) == token else None


class RecentIds:
    """The ids of the last few pages: rows that a listing by offset shows a second time.

    A run that appears in the middle of the reading moves the rows behind it by one, so that the
    last row of a page comes again as the first of the next. Rows move by as many as appeared, so
    a few pages are memory enough, whatever the length of the listing.
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
