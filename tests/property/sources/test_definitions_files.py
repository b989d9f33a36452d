"""Whatever stands in a definitions file: it is read, or all that is wrong with it is told."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcat_ingest.errors import InvalidUrnError, RecipeValidationError
from mlcat_ingest.metadata.urn import check, entity_type_of
from mlcat_ingest.metadata.validate import validate_aspect
from mlcat_ingest.sources.definitions.file_source import DefinitionsConfig, DefinitionsSource
from mlcat_ingest.sources.definitions.tables import FeatureTable
from support.definitions import definitions
from support.examples import examples
from support.json_mutations import mutated
from support.names import HOSTILE
from support.reading import records_of

GOOD = definitions(sets={"ranking": ["drivers:rate", "drivers:trips"]})


@pytest.fixture(scope="module")
def file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "features.json"


def entities_of(file: Path) -> None:
    """Read and map everything; each entity has to be one that the catalog takes."""
    source = DefinitionsSource(DefinitionsConfig(path=file, instance="eu"))
    coming = {table.urn for table in source.coming_tables()}
    found = set()
    for record in records_of(source):
        try:
            entities = list(source.map(record))
        except InvalidUrnError:
            continue
        assert isinstance(record, FeatureTable)
        found.add(entities[-1].urn)
        for entity in entities:
            check(entity.urn)
            for name, aspect in entity.aspects.items():
                written = {key: value for key, value in aspect.items() if value is not None}
                assert validate_aspect(entity_type_of(entity.urn), name, written) == []
    assert coming == found


def refused(file: Path) -> Sequence[str]:
    """Return what is wrong with a file; one that is read has to become entities."""
    try:
        entities_of(file)
    except RecipeValidationError as error:
        return error.problems
    return ()


@given(content=mutated(GOOD))
@settings(max_examples=examples(50))
def test_a_spoiled_file_is_refused_with_its_places_or_read(file: Path, content: Any) -> None:
    try:
        text = json.dumps(content)
    except (ValueError, RecursionError):
        return
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    assert all(problem.startswith(str(file)) for problem in refused(file))


@given(st.lists(st.sampled_from(sorted(HOSTILE.values())) | st.text(min_size=1), min_size=4))
@settings(max_examples=examples(40))
def test_names_of_any_kind_are_taken_or_refused(file: Path, names: list[str]) -> None:
    table, key, one, *more = names
    features = [{"name": name} for name in dict.fromkeys([one, *more])]
    tables = [{"name": table, "keys": [{"name": key}], "features": features}]
    text = yaml.safe_dump(definitions(namespace=names[-1], tables=tables), allow_unicode=True)
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    assert all(problem.startswith(str(file)) for problem in refused(file))
