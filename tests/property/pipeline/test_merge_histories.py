"""Histories: two recipes, an ignorant program, people and both sources, in any order.

The oracle keeps plain sets of names and the two sentences of the specification; what stands on the
shelf has to agree with it after every step, as sets, and by what each base claims.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.reserved import OWN_PREFIX
from mlcat_ingest.pipeline.merge.applied import fingerprint, fingerprints_in, text_of_keys
from mlcat_ingest.pipeline.merge.rules import MergeRules
from support.examples import examples
from support.merging import HOME, Shelf

Name = Literal["A", "B"]
WRITERS: tuple[Name, Name] = ("A", "B")
RULES = {writer: MergeRules(Writer(writer)) for writer in WRITERS}


@dataclass(frozen=True)
class Collection:
    """One list or map of an aspect, seen as names."""

    aspect: str
    field: str
    make: Callable[[list[str]], Any]
    names: Callable[[Any], list[str]]


COLLECTIONS = (
    Collection(HOME, "groups", list, list),
    Collection(
        HOME,
        "customProperties",
        lambda names: {name: f"value of {name}" for name in names},
        lambda value: [key for key in value if not key.startswith(OWN_PREFIX)],
    ),
    Collection(
        HOME,
        "hyperParams",
        lambda names: [{"name": name, "value": "1"} for name in names],
        lambda value: [entry["name"] for entry in value],
    ),
    Collection(
        "globalTags",
        "tags",
        lambda names: [{"tag": name} for name in names],
        lambda value: [entry["tag"] for entry in value],
    ),
)


@dataclass
class Oracle:
    """One collection as sets: what is there, what each base claims, and what nobody may lose."""

    stored: set[str] = field(default_factory=set)
    base: dict[str, set[str]] = field(default_factory=lambda: {"A": set(), "B": set()})
    theirs_first: set[str] = field(default_factory=set)
    """Put there by people while neither there nor claimed by any writer."""

    def ingest(self, writer: Name, fresh: set[str]) -> None:
        other = "B" if writer == "A" else "A"
        applied, others = self.base[writer], self.base[other]
        people = self.stored - (applied | others)
        self.stored = (self.stored - ((applied - fresh) - others)) | fresh
        self.base[writer] = fresh - people

    def add(self, name: str) -> None:
        if name not in self.stored | self.base["A"] | self.base["B"]:
            self.theirs_first.add(name)
        self.stored.add(name)

    def remove(self, name: str) -> None:
        self.stored.discard(name)
        self.theirs_first.discard(name)


names = st.lists(st.sampled_from("abc"), max_size=3, unique=True)
steps = st.one_of(
    *(st.tuples(st.just("ingest"), st.just(writer), names) for writer in WRITERS * 2),
    st.tuples(st.just("ingest"), st.sampled_from(WRITERS), st.none()),
    st.tuples(st.sampled_from(["add", "remove", "edit"]), st.sampled_from("abc")),
    st.tuples(st.just("reverse")),
    st.tuples(st.just("strip"), st.sampled_from(WRITERS)),
    st.tuples(st.just("upsert"), names),
)


class Story:
    """A shelf and its oracle, taken through the same steps."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.shelf = Shelf()
        self.oracle = Oracle()

    def value(self) -> Any:
        found = self.shelf.field(self.collection.field, aspect=self.collection.aspect)
        return self.collection.make([]) if found is None else found

    def there(self) -> list[str]:
        return self.collection.names(self.value())

    def own(self) -> dict[str, str]:
        value = self.value()
        keep = isinstance(value, dict)
        return {k: v for k, v in value.items() if k.startswith(OWN_PREFIX)} if keep else {}

    def write(self, value: Any) -> None:
        self.shelf.edit(self.collection.aspect, **{self.collection.field: value})

    def step(self, step: tuple[Any, ...]) -> None:
        getattr(self, step[0])(*step[1:])

    def ingest(self, writer: Name, fresh: list[str] | None) -> None:
        message: dict[str, dict[str, Any]] = {HOME: {"name": "n"}}
        if fresh is not None:
            message.setdefault(self.collection.aspect, {})[self.collection.field] = (
                self.collection.make(fresh)
            )
        known = bool(self.shelf.aspects)
        had_base = f"mlcat.applied.{writer}" in self.shelf.field("customProperties", {})
        before = self.there()
        merged = self.shelf.ingest(message, RULES[writer])
        assert merged.without_base == (known and not had_base)
        after = self.there()
        if fresh is None:
            assert after == before
            return
        self.oracle.ingest(writer, set(fresh))
        stayed = [name for name in before if name in after]
        assert after == [*stayed, *(name for name in fresh if name not in before)]
        assert self.shelf.ingest(message, RULES[writer]).proposals == ()

    def add(self, name: str) -> None:
        self.oracle.add(name)
        if name not in self.there():
            value, more = self.value(), self.collection.make([name])
            self.write({**value, **more} if isinstance(value, dict) else [*value, *more])

    def remove(self, name: str) -> None:
        self.oracle.remove(name)
        value = self.value()
        if isinstance(value, dict):
            self.write({key: entry for key, entry in value.items() if key != name})
        else:
            self.write([one for one in value if self.collection.names([one]) != [name]])

    def edit(self, name: str) -> None:
        """Change what an entry says, not which entry it is."""
        value = self.value()
        if isinstance(value, dict):
            self.write({key: "edited" if key == name else text for key, text in value.items()})
        elif value and isinstance(value[0], dict):
            self.write([{**one, "more": 1} for one in value])

    def reverse(self) -> None:
        value = self.value()
        self.write(dict(reversed(value.items())) if isinstance(value, dict) else value[::-1])

    def strip(self, writer: Name) -> None:
        self.shelf.strip(writer)
        self.oracle.base[writer] = set()

    def upsert(self, fresh: list[str]) -> None:
        """Write the whole aspect as somebody does who keeps nothing of others."""
        self.shelf.put(self.collection.aspect, {self.collection.field: self.collection.make(fresh)})
        if self.collection.aspect == HOME:
            self.oracle.base = {"A": set(), "B": set()}
        claimed = self.oracle.base["A"] | self.oracle.base["B"]
        self.oracle.theirs_first = (self.oracle.theirs_first & set(fresh)) | (
            set(fresh) - claimed - self.oracle.stored
        )
        self.oracle.stored = set(fresh)

    def check(self) -> None:
        assert sorted(self.there()) == sorted(self.oracle.stored)
        assert self.oracle.theirs_first <= self.oracle.stored
        custom = self.shelf.field("customProperties", {})
        for writer in WRITERS:
            if f"mlcat.applied.{writer}" in custom:
                claims = self.shelf.base(writer).get(self.collection.aspect, {})
                text = claims.get(self.collection.field, "")
                assert fingerprints_in(text) == fingerprints_in(
                    self._text(self.oracle.base[writer])
                )

    def _text(self, claimed: set[str]) -> str:
        if self.collection.aspect == "globalTags":
            return text_of_keys(tuple((name, None) for name in claimed))
        return text_of_keys(tuple(claimed))


@settings(max_examples=examples(500))
@given(st.sampled_from(COLLECTIONS), st.lists(steps, min_size=4, max_size=15))
def test_a_history_ends_as_its_sets_say(
    collection: Collection, history: list[tuple[Any, ...]]
) -> None:
    story = Story(collection)
    for step in history:
        story.step(step)
        story.check()


@given(st.sampled_from(COLLECTIONS), st.lists(steps, max_size=8), names, names)
def test_ours_go_when_the_source_drops_them(
    collection: Collection, history: list[tuple[Any, ...]], first: list[str], then: list[str]
) -> None:
    story = Story(collection)
    for step in history:
        story.step(step)
    others = set(story.there()) | story.oracle.base["B"]
    story.ingest("A", first)
    story.ingest("A", then)
    assert set(story.there()) & set(first) <= set(then) | others


@given(
    st.sampled_from(COLLECTIONS),
    st.lists(steps, max_size=8),
    names,
    st.lists(st.tuples(st.sampled_from(["add", "remove", "edit"]), st.sampled_from("abcxyz"))),
)
def test_a_merge_commutes_with_edits_that_touch_neither_base_nor_fresh(
    collection: Collection,
    history: list[tuple[Any, ...]],
    fresh: list[str],
    edits: list[tuple[str, str]],
) -> None:
    stories = [Story(collection), Story(collection)]
    for story in stories:
        for step in history:
            story.step(step)
    touched = {*fresh, *stories[0].oracle.base["A"]}
    edits = [edit for edit in edits if edit[1] not in touched]
    for edit in edits:
        stories[0].step(edit)
    for story in stories:
        story.ingest("A", fresh)
    for edit in edits:
        stories[1].step(edit)
    first, second = (story.shelf for story in stories)
    assert sorted(stories[0].there()) == sorted(stories[1].there())
    assert first.base("A") == second.base("A")


# --- single values -------------------------------------------------------------------------------

values = st.sampled_from(["x", "y"])
value_steps = st.one_of(
    st.tuples(st.just("ingest"), st.sampled_from(WRITERS), st.none() | values),
    st.tuples(st.just("absent"), st.sampled_from(WRITERS)),
    st.tuples(st.just("person"), st.none() | values),
    st.tuples(st.just("strip"), st.sampled_from(WRITERS)),
)


@given(st.lists(value_steps, max_size=15))
def test_a_value_goes_only_while_it_is_still_the_one_we_wrote(history: list[Any]) -> None:
    shelf = Shelf()
    stored: str | None = None
    base: dict[str, str | None] = {"A": None, "B": None}
    for verb, *rest in history:
        who = rest[0]
        match verb:
            case "ingest":
                fresh, other = rest[1], "B" if who == "A" else "A"
                shelf.ingest({HOME: {"name": "n", "description": fresh}}, RULES[who])
                ours = stored is not None and stored in (base[who], base[other])
                if fresh is None:
                    gone = stored is not None and base[who] == stored != base[other]
                    stored, base[who] = (None if gone else stored), None
                else:
                    base[who] = fresh if stored != fresh or ours else None
                    stored = fresh
            case "absent":
                shelf.ingest({HOME: {"name": "n"}}, RULES[who])
            case "person":
                stored = who
                properties = dict(shelf.aspects.get(HOME, {}))
                properties.pop("description", None)
                shelf.put(HOME, properties if who is None else {**properties, "description": who})
            case "strip":
                shelf.strip(who)
                base[who] = None
            case _:
                raise AssertionError(verb)
        assert shelf.field("description") == stored
        for writer in WRITERS:
            if f"mlcat.applied.{writer}" in shelf.field("customProperties", {}):
                claimed = shelf.base(writer).get(HOME, {}).get("description")
                assert claimed == (None if base[writer] is None else fingerprint(base[writer]))
