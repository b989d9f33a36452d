"""Metadata tests of a recipe's files: created where the catalog lacks them, else compared."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mlcat_ingest.client.base import CANNOT_ANSWER, Catalog, chunks
from mlcat_ingest.errors import AspectChangedError, CodecError, RecipeError
from mlcat_ingest.metadata.aspects.assets import TEST_INFO
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.proposal import IF_VERSION_MATCH, NOT_STORED, Aspect
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.recipe.metadata_test_files import FileTest


def create_tests(catalog: Catalog, tests: Mapping[str, FileTest]) -> str | None:
    """Create the missing tests in `catalog`; return why one cannot be created, else None.

    Raises:
        RecipeError: the catalog holds another test under the same URN.
        CatalogUnavailableError, AuthenticationError: as named.

    Cost: one read and one write for a batch of tests, one more read where another writer was first.
    """
    try:
        return _create(catalog, tests)
    except CANNOT_ANSWER as error:
        return f"the recipe's metadata tests cannot be created: {error.message}"


def _create(catalog: Catalog, tests: Mapping[str, FileTest]) -> str | None:
    for urns in chunks(sorted(tests), MAX_REQUEST_ITEMS):
        absent = _absent(catalog, tests, urns)
        while absent:
            condition = {IF_VERSION_MATCH: NOT_STORED}
            refused = catalog.write([replace(tests[u].proposal, headers=condition) for u in absent])
            for error in refused:
                if not isinstance(error, AspectChangedError):
                    return f"{tests[error.urn].file}: a metadata test cannot be created: {error}"
            # Another writer created one of them, so each round leaves fewer.
            before, absent = absent, _absent(catalog, tests, [error.urn for error in refused])
            if len(absent) == len(before):
                return f"the metadata test {absent[0]} cannot be created: {refused[0]}"
    return None


def _absent(catalog: Catalog, tests: Mapping[str, FileTest], urns: Sequence[str]) -> Sequence[str]:
    """Return the `urns` that the catalog lacks; a test that differs there is an error."""
    stored = catalog.read_many(urns, [TEST_INFO]) if urns else {}
    absent = []
    for urn in urns:
        info = stored.get(urn, {}).get(TEST_INFO)
        if info is None:
            absent.append(urn)
        elif (field := _difference(tests[urn].proposal.aspect, info.value)) is not None:
            raise RecipeError(
                f"{tests[urn].file}: the metadata test {urn} has another {field} in the catalog",
                hint="edit the file, or update the catalog: mlcat-ingest catalog tests push "
                f"{tests[urn].file}",
            )
    return absent


def _difference(own: Aspect, stored: Aspect) -> str | None:
    """Return the first field in which the file and the catalog differ, else None.

    Definitions are compared as JSON, whatever their white space.
    """
    for field, value in own.items():
        if field == "definition":
            texts = (value, stored.get(field) or {})
            mine, theirs = (_json(definition.get("json")) for definition in texts)
            if mine != theirs:
                return field
        elif stored.get(field) != value:
            return field
    return None


def _json(text: object) -> object:
    try:
        return loads(text) if isinstance(text, str) else text
    except CodecError:
        return text
