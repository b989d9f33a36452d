"""The schema's text: the files of `sdl/` as one document, with what interfaces hand down."""

from collections.abc import Iterable
from importlib.resources import files

from graphql import (
    DefinitionNode,
    DocumentNode,
    FieldDefinitionNode,
    InterfaceTypeDefinitionNode,
    ObjectTypeDefinitionNode,
    parse,
)


def schema_document() -> DocumentNode:
    """Return the definitions of every file, each object type with the fields of its interfaces.

    SDL has no inheritance: a type has to repeat what its interfaces declare. In our files a field
    that many types share stands once, at the interface, and is copied here. What a type declares
    itself is left as it is.
    """
    folder = files("mlcat_ingest.catalog.web.graphql") / "sdl"
    texts = [
        file.read_text("utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".graphql")
    ]
    definitions = parse("\n".join(texts), no_location=True).definitions
    _hand_down(definitions)
    return DocumentNode(definitions=definitions)


def _hand_down(definitions: Iterable[DefinitionNode]) -> None:
    shared = {
        definition.name.value: definition.fields
        for definition in definitions
        if isinstance(definition, InterfaceTypeDefinitionNode)
    }
    for definition in definitions:
        if isinstance(definition, ObjectTypeDefinitionNode):
            own = {field.name.value for field in definition.fields}
            definition.fields = (
                *_missing(definition, shared, own),
                *definition.fields,
            )


def _missing(
    owner: ObjectTypeDefinitionNode,
    shared: dict[str, tuple[FieldDefinitionNode, ...]],
    own: set[str],
) -> list[FieldDefinitionNode]:
    return [
        field
        for interface in owner.interfaces
        for field in shared.get(interface.name.value, ())
        if field.name.value not in own
    ]
