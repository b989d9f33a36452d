"""Whatever a part holds: what is built is read back, and nothing is ever too long."""

from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.urn import (
    FABRICS,
    KINDS,
    Part,
    Urn,
    build,
    check,
    encode_foreign,
    encode_own,
    encoded_bytes,
    entity_type_of,
    parse,
)
from support.names import long_names, names, unhurried

ESCAPES = ("%2C", "%28", "%29", "%E2%90%9F")

platforms = names.map(lambda name: f"urn:li:dataPlatform:{encode_foreign(name.strip() or 'x')}")
flows = st.lists(names, min_size=3, max_size=3).map(
    lambda parts: f"urn:li:dataFlow:({','.join(map(encode_foreign, parts))})"
)


@st.composite
def parts_of_a_kind(
    draw: st.DrawFn, text: st.SearchStrategy[str] = names
) -> tuple[str, tuple[str, ...]]:
    kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    drawn = {
        Part.NAME: text,
        Part.FABRIC: st.sampled_from(sorted(FABRICS)),
        Part.PLATFORM: platforms,
        Part.DATA_FLOW: flows,
    }
    return kind.entity_type, tuple(draw(drawn[role]) for role in kind.parts)


def holds_an_escape(parts: tuple[str, ...]) -> bool:
    """Foreign names spell nothing twice: a literal `%2C` in one is the same as a comma."""
    return any(escape in part for part in parts for escape in ESCAPES)


@unhurried
@given(parts_of_a_kind())
def test_what_is_built_is_read_back(drawn: tuple[str, tuple[str, ...]]) -> None:
    entity_type, parts = drawn
    try:
        urn = build(entity_type, *parts)
    except InvalidUrnError:
        spelled = ",".join(map(encode_own, parts))
        too_long = encoded_bytes(f"urn:li:{entity_type}:({spelled})") > 512
        assert too_long or parts[0] != parts[0].strip()
        return
    assert parse(urn).entity_type == entity_type_of(urn) == entity_type
    assert check(urn) == check(str(parse(urn)))
    if KINDS[entity_type].own or not holds_an_escape(parts):
        assert parse(urn) == Urn(entity_type, parts)
        assert str(parse(urn)) == urn


@unhurried
@given(parts_of_a_kind(long_names))
def test_no_urn_is_over_the_limit(drawn: tuple[str, tuple[str, ...]]) -> None:
    entity_type, parts = drawn
    try:
        urn = build(entity_type, *parts)
    except InvalidUrnError:
        return
    assert len(quote(urn, safe="")) <= encoded_bytes(urn) <= 512
    assert len(quote(urn, safe="").replace("~", "%7E")) <= 512


@unhurried
@given(names, names)
def test_our_own_spelling_tells_any_two_names_apart(one: str, other: str) -> None:
    assert (encode_own(one) == encode_own(other)) == (one == other)
    assert not set(",()") & set(encode_own(one))
    assert encode_own(one).isprintable() or not one.isprintable()


@unhurried
@given(st.text(max_size=80) | names.map(lambda text: f"urn:li:mlFeature:({text}"))
def test_reading_any_text_gives_a_urn_or_one_kind_of_error(text: str) -> None:
    try:
        found = parse(text)
    except InvalidUrnError:
        return
    assert check(str(found))
