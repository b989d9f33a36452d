import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.core.paging import ListingPage, RecentIds, follow
from mlcat_ingest.errors import ProtocolMismatchError, SourceUnavailableError
from mlcat_ingest.sources.mlflow.read.listing import offset_after, offset_token
from mlcat_ingest.sources.paging import drain_slices, read_ahead

Fetch = Callable[[str | None], ListingPage[Any]]


class Listing:
    """A listing by offset of `count` items, `size` a page or what is asked for.

    `token` spells the tokens.
    """

    def __init__(self, count: int, size: int, token: Callable[[int], str] = offset_token) -> None:
        self.items = list(range(count))
        self.size = size
        self.offsets = {token(offset): offset for offset in range(count + 20 * size + 1)}
        self.token = token
        self.asked: list[str | None] = []
        self.lock = threading.Lock()

    def __call__(self, token: str | None, items: int | None = None) -> ListingPage[int]:
        with self.lock:
            self.asked.append(token)
        start = 0 if token is None else self.offsets[token]
        end = start + (items or self.size)
        more = end < len(self.items)
        return ListingPage(self.items[start:end], self.token(end) if more else None)


def read(
    fetch: Fetch, ahead: int = 3, want: int | None = None, size: int = 10
) -> Iterator[Sequence[Any]]:
    return read_ahead(
        lambda token, _: fetch(token),
        lambda page: page,
        lambda: size,
        listing="listing of things",
        ahead=ahead,
        want=want,
        token_after=offset_after,
    )


def flat(pages: Iterator[Sequence[Any]]) -> list[Any]:
    return [item for page in pages for item in page]


@pytest.mark.parametrize("spelled", [offset_token, lambda offset: f"opaque-{offset}"])
@given(count=st.integers(0, 40), size=st.integers(1, 7), ahead=st.integers(1, 5))
def test_every_item_is_read_once_in_order(
    spelled: Callable[[int], str], count: int, size: int, ahead: int
) -> None:
    listing = Listing(count, size, spelled)
    assert flat(read(listing, ahead, size=size)) == listing.items
    pages = max(1, -(-count // size))
    assert pages <= len(listing.asked) <= pages + ahead - 1
    assert flat(follow(Listing(count, size, spelled), listing="listing of things")) == listing.items


@given(
    count=st.integers(0, 60), sizes=st.lists(st.integers(1, 7), min_size=1), ahead=st.integers(1, 5)
)
def test_pages_of_changing_sizes_are_foretold(count: int, sizes: list[int], ahead: int) -> None:
    listing, turns = Listing(count, 1), itertools.cycle(sizes)
    pages = read_ahead(
        listing,
        lambda page: page,
        lambda: next(turns),
        listing="listing of things",
        ahead=ahead,
        token_after=offset_after,
    )
    assert flat(pages) == listing.items
    assert len(set(listing.asked)) == len(listing.asked)


def test_a_single_full_page_takes_one_request() -> None:
    listing = Listing(1000, 1000)
    assert len(flat(read(listing))) == 1000
    assert listing.asked == [None]


def test_tokens_that_cannot_be_foretold_are_never_guessed() -> None:
    listing = Listing(50, 10, lambda offset: f"opaque-{offset}")
    flat(read(listing, ahead=5))
    assert len(listing.asked) == 5


def test_requests_are_under_way_together() -> None:
    listing = Listing(30, 10)
    together = threading.Barrier(2, timeout=30)

    def fetch(token: str | None) -> ListingPage[int]:
        if token is not None:
            together.wait()
        return listing(token)

    assert flat(read(fetch)) == listing.items


@pytest.mark.parametrize(
    "pages",
    [
        # The server skips: its second token is not one step after the first.
        {0: ([1, 2], 2), 2: ([3, 4], 7), 7: ([8, 9], 9), 9: ([10], None)},
        # It sends fewer than it is asked for.
        {0: ([1, 2], 2), 2: ([3], 3), 3: ([4, 5], None)},
    ],
)
def test_a_guess_that_the_server_does_not_confirm_is_thrown_away(
    pages: dict[int, tuple[list[int], int | None]],
) -> None:
    def fetch(token: str | None) -> ListingPage[Any]:
        at = 0 if token is None else next(n for n in range(20) if offset_token(n) == token)
        items, after = pages.get(at, (["wrong"], None))
        return ListingPage(list(items), None if after is None else offset_token(after))

    assert flat(read(fetch, size=2)) == [item for items, _ in pages.values() for item in items]


@pytest.mark.parametrize("ahead", [1, 3])
def test_a_repeated_token_ends_the_reading(ahead: int) -> None:
    def endless(_: str | None) -> ListingPage[Any]:
        return ListingPage(["again"], offset_token(1))

    with pytest.raises(ProtocolMismatchError, match=r"listing of things returned the same page"):
        flat(read(endless, ahead))
    with pytest.raises(ProtocolMismatchError, match=r"listing of things returned"):
        flat(follow(endless, listing="listing of things"))


def test_empty_pages_without_end_end_the_reading() -> None:
    def empty(token: str | None) -> ListingPage[Any]:
        return ListingPage([], f"{token}+")

    with pytest.raises(ProtocolMismatchError, match=r"only empty pages"):
        flat(follow(empty, listing="listing of things"))


def test_an_empty_page_in_the_middle_is_no_end() -> None:
    pages = {None: ListingPage([1], "a"), "a": ListingPage([], "b"), "b": ListingPage([2], "")}
    assert flat(follow(lambda token: pages[token], listing="listing of things")) == [1, 2]


def test_a_fault_is_raised_only_for_a_page_whose_turn_has_come() -> None:
    listing = Listing(30, 10)

    def fetch(token: str | None) -> ListingPage[int]:
        if token == offset_token(20):
            raise SourceUnavailableError("gone")
        return listing(token)

    pages = read(fetch)
    assert [len(next(pages)), len(next(pages))] == [10, 10]
    with pytest.raises(SourceUnavailableError, match=r"gone"):
        next(pages)


def test_a_fault_beyond_the_end_is_nobodys() -> None:
    listing = Listing(25, 10)

    def fetch(token: str | None) -> ListingPage[int]:
        if token is not None and listing.offsets[token] >= 30:
            raise SourceUnavailableError("gone")
        return listing(token)

    assert flat(read(fetch, ahead=5)) == listing.items


def test_no_page_is_asked_for_ahead_of_what_is_wanted() -> None:
    listing = Listing(100, 10)
    pages = read(listing, want=20)
    assert [len(next(pages)) for _ in range(2)] == [10, 10]
    pages.close()  # type: ignore[attr-defined]
    assert listing.asked == [None, offset_token(10)]


def test_a_caller_that_wants_more_after_all_gets_it() -> None:
    listing = Listing(30, 10)
    assert flat(read(listing, want=10)) == listing.items


def test_a_slow_caller_has_one_page_ahead_and_asks_for_nothing_beyond_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asking: list[threading.Thread] = []

    class Noted(threading.Thread):
        def start(self) -> None:
            asking.append(self)
            super().start()

    monkeypatch.setattr(threading, "Thread", Noted)
    listing = Listing(200, 10)
    ahead = []
    for number, _ in enumerate(read(listing, ahead=4)):
        for thread in asking:  # so slow that everything asked for has come
            thread.join(30)
        ahead.append(len(listing.asked) - number - 1)
    assert ahead == [2, *[1] * 18, 0]


@given(count=st.integers(0, 30), size=st.integers(1, 9))
def test_items_are_used_up_in_slices_in_order(count: int, size: int) -> None:
    items = list(range(count))
    slices = []
    for taken in drain_slices(items, size):
        slices.append(taken)
        assert len(items) == count - sum(map(len, slices))
    assert [item for taken in slices for item in taken] == list(range(count))
    assert all(len(taken) == size for taken in slices[:-1])


def test_a_page_handed_out_is_held_by_the_caller_only() -> None:
    class Items(list[int]):
        """A list that a weak reference can be made to."""

    alive: list[weakref.ref[Items]] = []

    def parse(reply: list[int]) -> ListingPage[int]:
        # When the next page is parsed, the one before it is gone.
        assert not any(page() for page in alive)
        items = Items(reply)
        alive.append(weakref.ref(items))
        start = reply[-1] + 1
        return ListingPage(items, offset_token(start) if start < 50 else None)

    def fetch(token: str | None, items: int) -> list[int]:
        start = next(at for at in range(0, 90, 10) if offset_after(None, at) == token or not token)
        return list(range(start, start + items))

    count = 0
    pages = read_ahead(
        fetch, parse, lambda: 10, listing="listing of things", ahead=3, token_after=offset_after
    )
    while (page := next(pages, None)) is not None:
        count += len(page)
        del page
    assert count == len(alive) * 10 == 50


@pytest.mark.parametrize(
    "token", ["", "x", "bm90IGpzb24=", "eyJvZmZzZXQiOjF9", "eyJvZmZzZXQiOiAieCJ9", "MQ=="]
)
def test_tokens_of_another_kind_are_no_offsets(token: str) -> None:
    assert offset_after(token, 1) is None


def test_tokens_are_spelled_as_mlflow_spells_them() -> None:
    assert offset_token(1000) == "eyJvZmZzZXQiOiAxMDAwfQ=="
    assert offset_after("eyJvZmZzZXQiOiAxMDAwfQ==", 1) == offset_token(1001)


def test_rows_that_come_again_are_distinguished_from_new_ones() -> None:
    seen = RecentIds("the listing")
    assert seen.new(["a", "b", "c"]) == [0, 1, 2]
    assert seen.new(["c", "d", "d", "b"]) == [1]
    assert seen.new(["e"]) == [0]
    for page in ("f", "g", "h"):
        seen.new([page])
    assert seen.new(["d", "a"]) == [0, 1]


def test_only_the_last_pages_are_remembered() -> None:
    seen = RecentIds("the listing")
    for number in range(100):
        assert seen.new([str(number)]) == [0]
    assert len(seen._pages) == 4


@pytest.mark.parametrize("pages", [1, 3, 7, 50])
def test_a_listing_without_anything_new_ends(pages: int) -> None:
    seen = RecentIds("the listing")
    for number in range(pages + 19):
        seen.new([f"{number % pages}-{item}" for item in range(100)])
    with pytest.raises(ProtocolMismatchError, match="the listing returned 20 pages in a row"):
        seen.new(["0-0"])


def test_rows_that_move_back_a_whole_page_do_not_end_a_listing() -> None:
    seen = RecentIds("the listing")
    for number in range(200):
        seen.new([str(number // 15)])


@pytest.mark.parametrize("token", [{"offset": 3}, ["x"], 3, 0, False, {}])
def test_a_token_that_is_no_text_is_reported(token: Any) -> None:
    page = ListingPage([1], token)
    for pages in (
        follow(lambda _: page, listing="the listing"),
        read_ahead(lambda *_: page, lambda reply: reply, lambda: 5, listing="the listing", ahead=2),
    ):
        with pytest.raises(ProtocolMismatchError, match="a page token that is no text"):
            next(pages)
