"""Proposals: the intent to write one aspect of one entity; and the entities of a source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from mlcat_ingest.metadata.codec import JsonObject, aspect_text
from mlcat_ingest.metadata.urn import entity_type_of

Aspect = Mapping[str, Any]
"""One aspect as a JSON object; the typed forms are in `metadata.aspects`."""

CUSTOM: Final = "customProperties"
"""The field of a properties aspect that holds what has no field of its own, the base too."""

IF_VERSION_MATCH: Final = "If-Version-Match"
"""The header of a proposal that names the version it was merged with."""

NOT_STORED: Final = "-1"
"""The version of an aspect that is not stored, as a condition of a write."""

NO_SUCH_VERSION: Final = "999999999"
"""A version that nothing has: who takes a write under this condition checks none."""

_JSON = "application/json"

ChangeType = Literal["UPSERT", "CREATE", "CREATE_ENTITY", "UPDATE", "PATCH", "DELETE", "RESTATE"]


def custom_properties(properties: Aspect) -> Mapping[str, object]:
    """Return the custom properties of a properties aspect, none where they are no object."""
    custom = properties.get(CUSTOM)
    return custom if isinstance(custom, dict) else {}


@dataclass(frozen=True, slots=True)
class Proposal:
    """The intent to write one aspect of one entity.

    `aspect` is the whole of it as it is to be. A PATCH may send `patch` instead: the operations of
    RFC 6902 that make `aspect` of what is stored.
    """

    entity_urn: str
    aspect_name: str
    aspect: Aspect
    change_type: ChangeType = "UPSERT"
    headers: Mapping[str, str] | None = None
    patch: Sequence[Mapping[str, object]] = ()

    def wire(self) -> JsonObject:
        """Return the proposal as the service's emit endpoints take it.

        The aspect is a JSON text inside the JSON, in ASCII. A URN with other characters stays as
        it is, in UTF-8.

        Raises:
            CodecError: the aspect has no faithful JSON form.
            InvalidUrnError: the entity's URN names no entity type.

        Source: `MetadataChangeProposal`, wire protocol of DataHub's Rest.li `/aspects` resource.
        """
        content_type = "application/json-patch+json" if self.change_type == "PATCH" else _JSON
        return self._body({"value": aspect_text(self._content()), "contentType": content_type})

    def record(self) -> JsonObject:
        """Return the proposal as a line of a file, the aspect in the open.

        Source: the file sink and source of DataHub.
        """
        return self._body({"json": self._content()})

    def _body(self, aspect: JsonObject) -> JsonObject:
        body: JsonObject = {
            "entityType": entity_type_of(self.entity_urn),
            "entityUrn": self.entity_urn,
            "changeType": self.change_type,
            "aspectName": self.aspect_name,
            "aspect": aspect,
        }
        if self.headers:
            body["headers"] = dict(self.headers)
        return body

    def _content(self) -> object:
        return list(self.patch) if self.patch else self.aspect


class Note(NamedTuple):
    """Something the mapping had to leave out or change; the report counts notes by `kind`."""

    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class Entity:
    """The statement of a source about one entity in this pass.

    `aspects` maps aspect names to values, in the order they are written. Per field, a value is
    either complete or left out. A complete value is exactly the value of the source: null or an
    empty collection removes the earlier entries of the source. A field that was not read completely
    in this pass is left out, and its stored value stays. The same applies to whole aspects. The
    merge only adds to the aspects in `adds_only`: they were not read, but get entries. An entity
    with `only_if_absent` is only a reference: it is created if the catalog has none, and never
    changed. `formerly` is what another tool says of the same object: its entries are taken over
    where the recipe has not written yet, or that tool has written since; of a dataset it names the
    runs whose description does not count any more. `verdicts` are the tags of
    the recipe that verdicts of metadata tests give; None leaves them as they are.
    """

    urn: str
    aspects: Mapping[str, Aspect]
    only_if_absent: bool = False
    notes: tuple[Note, ...] = ()
    adds_only: frozenset[str] = frozenset()
    formerly: Mapping[str, Aspect] | None = None
    verdicts: tuple[str, ...] | None = None

    @property
    def entity_type(self) -> str:
        """The entity type that the URN names.

        Raises:
            InvalidUrnError: the URN names none.
        """
        return entity_type_of(self.urn)
