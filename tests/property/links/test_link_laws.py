"""What holds of links whatever a run says: none to nowhere, one result, and narrowing adds none."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from mlcat_ingest.links.index import FeatureIndex, FeatureRef, Features, FeatureSet
from mlcat_ingest.links.rules import (
    Evidence,
    FeastTags,
    LinkOptions,
    Links,
    UsedDataset,
    resolve,
    verify,
)
from mlcat_ingest.metadata.naming import Naming
from support.examples import examples

NAMES = ("a", "b", "driver_id", "x__a")
TABLES = ("t", "u", "x")
SPACES = ("p", "q")
LAKE = "urn:li:dataset:(urn:li:dataPlatform:s3,lake,PROD)"

names, tables, spaces = map(st.sampled_from, (NAMES, TABLES, SPACES))
refs = st.one_of(
    st.builds("{}:{}".format, tables, names),
    st.builds("{}@v2:{}".format, tables, names),
    st.builds("{}.{}:{}".format, spaces, tables, names),
    st.builds("urn:li:mlFeature:({}.{},{})".format, spaces, tables, names),
    st.text(max_size=6),
)
feast = st.builds(
    FeastTags,
    project=st.none() | spaces,
    refs=st.lists(refs, max_size=4).map(tuple),
    is_cut=st.booleans(),
    count=st.none() | st.integers(0, 5),
    service=st.none() | st.sampled_from(("s", "r")),
    retrieval=st.sampled_from((None, "historical", "online")),
)
evidences = st.builds(
    Evidence,
    declared=st.none() | st.lists(refs, max_size=3).map(",".join),
    feature_specs=st.lists(st.text(max_size=8), max_size=2).map(tuple),
    feast=st.none() | feast,
    features_file=st.none() | st.just('["t:a", "u:b"]') | st.text(max_size=8),
    datasets=st.just(()) | st.just((UsedDataset(LAKE, frozenset(NAMES)),)),
    columns=st.none() | st.frozensets(names, max_size=3),
)


@st.composite
def indexes(draw: st.DrawFn) -> FeatureIndex:
    index = FeatureIndex()
    naming = Naming("feast", instance=draw(st.sampled_from((None, "eu"))))
    for space, table in draw(st.sets(st.tuples(spaces, tables), max_size=4)):
        index.add_table(
            naming,
            space,
            table,
            draw(st.sets(names)),
            keys=draw(st.sampled_from(([], ["driver_id"]))),
            labels=draw(st.booleans()),
            complete=draw(st.booleans()),
            sources=[LAKE],
        )
    for space, name in draw(st.sets(st.tuples(spaces, st.sampled_from(("s", "r"))), max_size=2)):
        features = tuple(draw(st.lists(st.builds(FeatureRef, tables, names), max_size=3)))
        aliases = draw(st.dictionaries(tables, tables, max_size=1))
        index.add_set(FeatureSet(space, name, features, aliases))
    return index


stores = st.lists(indexes(), max_size=2)
catalogs = st.sets(st.builds("urn:li:mlFeature:({}.{},{})".format, spaces, tables, names))
options = st.builds(LinkOptions, dataset_match=st.booleans(), signature_names=st.booleans())


def links(
    evidence: Evidence, store: list[FeatureIndex], known: set[str], chosen: LinkOptions
) -> Links:
    candidate, _ = resolve(evidence, Features(store), chosen)
    return verify(candidate, known.__contains__, dangling=chosen.dangling)


@given(evidences, stores, catalogs, options)
@settings(max_examples=examples(200))
def test_no_link_leads_to_where_the_catalog_has_nothing(
    evidence: Evidence, store: list[FeatureIndex], known: set[str], chosen: LinkOptions
) -> None:
    found = links(evidence, store, known, chosen)
    assert set(found.urns) <= known
    assert list(found.urns) == sorted(set(found.urns))
    assert found == links(evidence, store, known, chosen)


@given(feast, stores, catalogs)
@settings(max_examples=examples(100))
def test_the_order_of_references_and_of_stores_is_none(
    tags: FeastTags, store: list[FeatureIndex], known: set[str]
) -> None:
    there = links(Evidence(feast=tags), store, known, LinkOptions())
    turned = replace(tags, refs=tags.refs[::-1])
    back = links(Evidence(feast=turned), store[::-1], known, LinkOptions())
    assert (there.rule, there.urns, there.complete) == (back.rule, back.urns, back.complete)
    assert set(there.unknown) == set(back.unknown)
    assert set(there.ambiguous) == set(back.ambiguous)


@given(evidences, stores, catalogs)
@settings(max_examples=examples(100))
def test_a_signature_never_adds_a_link(
    evidence: Evidence, store: list[FeatureIndex], known: set[str]
) -> None:
    narrowed = links(evidence, store, known, LinkOptions())
    whole = links(replace(evidence, columns=None), store, known, LinkOptions())
    assert set(narrowed.urns) <= set(whole.urns)


@given(evidences, stores, catalogs)
@settings(max_examples=examples(100))
def test_dangling_links_are_all_those_without_them_and_more(
    evidence: Evidence, store: list[FeatureIndex], known: set[str]
) -> None:
    strict = links(evidence, store, known, LinkOptions())
    loose = links(evidence, store, known, LinkOptions(dangling=True))
    assert set(strict.urns) <= set(loose.urns)
    assert set(loose.unknown) <= set(strict.unknown)
    assert strict.ambiguous == loose.ambiguous
