"""A batch is its writes, one after the other: the same outcome, and the same refusals."""

from collections.abc import Iterator
from contextlib import closing
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.catalog.schema.values import Change, Direction, EdgeQuery, Write, WriteResult
from mlcat_ingest.catalog.store.store import Store
from support.catalog_store import group, model, open_store
from support.examples import examples

PROPERTIES = "mlModelProperties"
ASPECTS = (PROPERTIES, "status", "mlModelKey")

_numbers = count()


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Store]]:
    folder = tmp_path_factory.mktemp("batches")
    with closing(open_store(folder / "a.db")) as one, closing(open_store(folder / "b.db")) as other:
        yield one, other


values = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["x", "y"]),
        "groups": st.lists(st.sampled_from([group("g"), group("h")]), unique=True),
        "description": st.sampled_from(["d", "e"]) | st.just(3),
    },
)
operations = st.builds(
    lambda op, path, value: {"op": op, "path": path, "value": value},
    st.sampled_from(["add", "remove", "replace"]),
    st.sampled_from(["/name", "/groups", f"/groups/{group('g')}", "/customProperties/a"]),
    st.sampled_from(["x", [group("g")], group("g")]),
)
envelopes: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"patch": st.lists(operations, max_size=3), "forceGenericPatch": st.just(value=True)},
    optional={"arrayPrimaryKeys": st.just({"groups": []})},
)
changes: st.SearchStrategy[Change] = st.sampled_from(
    ["UPSERT", "UPSERT", "PATCH", "PATCH", "DELETE", "RESTATE"]
)


@st.composite
def writes(draw: st.DrawFn) -> Write:
    name = draw(st.sampled_from(["a", "b"]))
    change = draw(changes)
    aspect = draw(st.sampled_from(ASPECTS if change == "DELETE" else ASPECTS[:2]))
    value: Any = {"removed": draw(st.booleans())}
    if change == "PATCH":
        aspect, value = PROPERTIES, draw(envelopes)
    elif aspect == PROPERTIES:
        value = draw(values)
    return Write(name, aspect, {} if change == "DELETE" else value, change)


def state(store: Store, urns: list[str]) -> Any:
    """Return everything about `urns` that can be read, but for times."""
    held = store.get_many(urns)
    related_entities = store.related_entities(urns, EdgeQuery(None, Direction.OUTGOING))
    return {
        urn: {
            "aspects": {
                name: (one.value, one.version) for name, one in sorted(held.get(urn, {}).items())
            },
            "versions": [
                (name, version, one.value)
                for name in ASPECTS[:2]
                for version in range(1, 12)
                if (one := store.get_version(urn, name, version)) is not None
            ],
            "edges": related_entities[urn],
        }
        for urn in urns
    }


def singly(store: Store, batch: list[Write]) -> tuple[list[WriteResult], int | None]:
    """Write one after the other; return what became of them, and which was refused first."""
    done: list[WriteResult] = []
    for at, write in enumerate(batch):
        try:
            done += store.write([write])
        except InvalidProposalError:
            return done, at
    return done, None


@settings(
    max_examples=examples(80),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(writes(), max_size=3), st.lists(writes(), min_size=1, max_size=7))
def test_a_batch_does_what_its_writes_do_one_by_one(
    stores: tuple[Store, Store], before: list[Write], chosen: list[Write]
) -> None:
    one, other = stores
    number = next(_numbers)
    urns = {name: model(f"{number}_{name}") for name in ("a", "b")}

    def placed(given: list[Write]) -> list[Write]:
        return [write._replace(urn=urns[write.urn]) for write in given]

    for store in stores:
        singly(store, placed(before))
    start = state(one, list(urns.values()))
    batch = placed(chosen)
    expected, refused = singly(one, batch)
    if refused is None:
        assert other.write(batch) == expected
        assert state(other, list(urns.values())) == state(one, list(urns.values()))
        return
    with pytest.raises(InvalidProposalError):
        other.write(batch)
    assert state(other, list(urns.values())) == start
