"""Two different things never share a URN, whatever they are called."""

from hypothesis import example, given
from hypothesis import strategies as st

from mlcat_ingest.metadata.naming import DATAHUB_TEMPLATES, Naming, Templates
from mlcat_ingest.metadata.urn import check, decoded_parts, encoded_bytes
from support.names import long_names, names

TEMPLATES = (
    Templates(),
    DATAHUB_TEMPLATES,
    Templates(group="g:{experiment}", registered_group="g:r:{name}"),
    Templates(group="a{experiment}a", registered_group="b{name}"),
)
things = st.tuples(st.booleans(), names | st.builds("registered:{}".format, names))


@given(
    one=things,
    other=things,
    templates=st.sampled_from(TEMPLATES),
    instance=st.none() | st.just("eu.west"),
)
@example((True, "a"), (False, "registered:a"), TEMPLATES[0], None)
@example((True, "a"), (False, "registered%3Aa"), TEMPLATES[0], None)
@example((False, "registered:a"), (False, "registered%3Aa"), TEMPLATES[0], None)
@example((True, "experiment:a"), (False, "a"), TEMPLATES[1], None)
@example((True, "a"), (False, "r:a"), TEMPLATES[2], None)
def test_experiments_and_registered_models_never_meet(
    one: tuple[bool, str], other: tuple[bool, str], templates: Templates, instance: str | None
) -> None:
    naming = Naming(instance=instance, templates=templates)
    urns = []
    for registered, name in (one, other):
        named = naming.registered_group(name) if registered else naming.group(name)
        if named.full_name is not None:
            return
        urns.append(named.urn)
    assert (urns[0] == urns[1]) == (one == other)


@given(names, names)
@example("a,b", "a%2Cb")
@example("50%", "50%25")
@example("50%", "50%2525")
@example("%\t", "%%09")
def test_names_shared_with_datahubs_source_never_meet(one: str, other: str) -> None:
    naming = Naming(templates=DATAHUB_TEMPLATES, shared=True)
    for build in (naming.registered_group, lambda name: naming.version(name, "1")):
        first, then = build(one), build(other)
        assert first.name in check(first.urn)
        if first.full_name is None and then.full_name is None:
            assert (first.urn == then.urn) == (one == other)


@given(names, names, names, names)
def test_tables_of_two_projects_never_meet(one: str, view: str, other: str, second: str) -> None:
    naming = Naming("feast")
    first, then = naming.feature_table(one, view), naming.feature_table(other, second)
    if first.full_name is None and then.full_name is None:
        assert (first.urn == then.urn) == ((one, view) == (other, second))


@given(long_names, st.none() | names, st.integers(1, 10**6))
def test_every_name_makes_a_urn_within_the_limit(
    text: str, instance: str | None, number: int
) -> None:
    try:
        naming = Naming(instance=instance)
    except ValueError:
        return
    table = naming.feature_table(text, text)
    for name in (
        naming.model(text),
        naming.group(text),
        naming.registered_group(text),
        naming.version(text, str(number)),
        table,
        naming.feature(table, text),
    ):
        assert encoded_bytes(name.urn) <= 512
        assert name.name in check(name.urn)
        if name.full_name is not None:
            decoded = decoded_parts(name.urn)[-2 if name.urn.endswith("PROD)") else -1]
            assert name.full_name.startswith(decoded.rpartition("~")[0])


@given(names)
def test_the_plain_name_is_what_the_urn_reads_back_to(text: str) -> None:
    name = Naming().model(text)
    assert name.full_name is None or len(text) > 16
    if name.full_name is None:
        assert decoded_parts(name.urn)[1] == text
