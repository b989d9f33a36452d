"""Whatever a part holds: what is built is read back, and nothing is ever too long."""

from urllib.parse import quote

from hypothesis import example, given
from hypothesis import strategies as st

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.urn import (
    FABRICS,
    KINDS,
    OWN_KINDS,
    UrnPart,
    build,
    check,
    decoded_parts,
    encode_foreign,
    encode_own,
    encoded_bytes,
    entity_type_of,
)
from support.names import long_names, names

ESCAPES = ("%2C", "%28", "%29", "%E2%90%9F")

platforms = names.map(lambda name: f"urn:li:dataPlatform:{encode_foreign(name.strip() or 'x')}")
flows = st.lists(names, min_size=3, max_size=3).map(
    lambda parts: f"urn:li:dataFlow:({','.join(map(encode_foreign, parts))})"
)


@st.composite
def parts_of_a_kind(
    draw: st.DrawFn, text: st.SearchStrategy[str] = names
) -> tuple[str, tuple[str, ...]]:
    entity_type = draw(st.sampled_from(sorted(KINDS)))
    drawn = {
        UrnPart.NAME: text,
        UrnPart.FABRIC: st.sampled_from(sorted(FABRICS)),
        UrnPart.PLATFORM: platforms,
        UrnPart.DATA_FLOW: flows,
    }
    return entity_type, tuple(draw(drawn[role]) for role in KINDS[entity_type])


def ends_with_white_space(text: str) -> bool:
    return text[-1] <= " " or text != text.rstrip()


def java_encoded(text: str) -> str:
    """What `java.net.URLEncoder` makes of a text."""
    return quote(text, safe="*").replace("~", "%7E").replace("%20", "+")


def a_server_refuses(urn: str) -> bool:
    """The rules of `UrnValidationUtil.validateUrn` for a URN that is no `schemaField`, strict."""
    if urn.startswith(JAVA_SPACES) or urn.endswith(JAVA_SPACES):
        return True
    if len(java_encoded(urn)) > 512 or "\u241f" in urn:
        return True
    parts = parts_as_java_sees_them(urn.split(":", 3)[3])
    if len(parts) == 1 and "," in parts[0]:
        return True
    return any(
        not part.startswith("urn:li:")
        and "%28" not in part
        and "%29" not in part
        and not set(part).isdisjoint("()" if len(parts) == 1 else "(),")
        for part in parts
    )


JAVA_SPACES = tuple(chr(code) for code in range(0x21))


def parts_as_java_sees_them(key: str) -> list[str]:
    """The parts of `com.linkedin.common.urn.TupleKey`: split at commas outside parentheses."""
    if not (key.startswith("(") and key.endswith(")")):
        return [key]
    parts, depth = [""], 0
    for char in key[1:-1]:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def holds_an_escape(parts: tuple[str, ...]) -> bool:
    """Foreign names spell nothing twice: a literal `%2C` in one is the same as a comma."""
    return any(escape in part for part in parts for escape in ESCAPES)


@given(parts_of_a_kind())
def test_what_is_built_is_read_back(drawn: tuple[str, tuple[str, ...]]) -> None:
    entity_type, parts = drawn
    try:
        urn = build(entity_type, *parts)
    except InvalidUrnError:
        spelled = ",".join(map(encode_own, parts))
        too_long = encoded_bytes(f"urn:li:{entity_type}:({spelled})") > 512
        assert too_long or ends_with_white_space(parts[0])
        return
    assert entity_type_of(urn) == entity_type
    assert check(urn) == check(build(entity_type, *decoded_parts(urn)))
    if entity_type in OWN_KINDS or not holds_an_escape(parts):
        assert decoded_parts(urn) == parts


@given(parts_of_a_kind(long_names))
def test_no_urn_is_over_the_limit(drawn: tuple[str, tuple[str, ...]]) -> None:
    entity_type, parts = drawn
    try:
        urn = build(entity_type, *parts)
    except InvalidUrnError:
        return
    assert len(quote(urn, safe="")) <= encoded_bytes(urn) <= 512
    assert len(quote(urn, safe="").replace("~", "%7E")) <= 512


@given(names, names)
def test_our_own_spelling_tells_any_two_names_apart(one: str, other: str) -> None:
    assert (encode_own(one) == encode_own(other)) == (one == other)
    assert not set(",()") & set(encode_own(one))
    assert encode_own(one).isprintable() or not one.isprintable()


@given(st.text(max_size=80) | names.map(lambda text: f"urn:li:mlFeature:({text}"))
def test_reading_any_text_gives_a_urn_or_one_kind_of_error(text: str) -> None:
    try:
        parts = decoded_parts(text)
    except InvalidUrnError:
        return
    assert check(build(entity_type_of(text), *parts))


@given(
    st.builds(
        lambda kind, key: f"urn:li:{kind}:{key}",
        st.sampled_from([*sorted(KINDS), "ownershipType"]),
        names | names.map(lambda text: f"(urn:li:dataPlatform:x,{text},PROD)") | long_names,
    )
)
@example("urn:li:tag:a,b")
@example("urn:li:tag:a(b)")
@example("urn:li:ownershipType:a,b")
@example("urn:li:ownershipType:a\x1f")
def test_what_a_server_refuses_is_refused_here(urn: str) -> None:
    try:
        check(urn)
    except InvalidUrnError:
        return
    assert not a_server_refuses(urn)


@given(parts_of_a_kind(names | long_names))
def test_a_server_takes_whatever_is_built(drawn: tuple[str, tuple[str, ...]]) -> None:
    entity_type, parts = drawn
    try:
        urn = build(entity_type, *parts)
    except InvalidUrnError:
        return
    assert not a_server_refuses(urn)
