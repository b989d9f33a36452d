"""A registry as raw objects, the transport that fetches them, and the check of both.

`split_registry` cuts a serialized registry into objects that are not decoded yet.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

from google.protobuf.message import DecodeError

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.pending import RequestSide
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import MlcatError, ProtocolMismatchError
from mlcat_ingest.sources.feast.messages import FRAMES

Kind = Literal[
    "project",
    "entity",
    "data_source",
    "feature_view",
    "stream_feature_view",
    "on_demand_feature_view",
    "label_view",
    "feature_service",
]
"""The kinds of objects that are read from a registry."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class RawObject:
    """One object of a registry as its message; `project` and `name` are empty where unknown."""

    kind: Kind
    project: str
    name: str
    proto: bytes


class RegistryTransport(RequestSide):
    """Reads the objects of one registry, which it contacts on first use only.

    `shown` is the registry's address without secrets, `requests` the number of those sent.
    """

    shown: str
    requests: int = 0

    @abstractmethod
    def server_id(self) -> str:
        """Return the identity of this registry, without secrets; may connect."""

    @abstractmethod
    def objects(self) -> Iterator[RawObject]:
        """Yield every object of the registry, of all projects and in any order.

        Raises: as `Source.read`.
        """

    def requests_made(self) -> int:
        """Return how many requests were sent so far."""
        return self.requests

    def check(self) -> Iterator[Finding]:
        """Yield whether the registry can be read, and the number of objects of each project.

        Cost: the registry is read once.
        """
        what = "Feast registry"
        counts: dict[str, Counter[str]] = {}
        try:
            for raw in self.objects():
                counts.setdefault(raw.project, Counter())[raw.kind] += 1
            identity = self.server_id()
        except MlcatError as error:
            yield Finding(what, "failed", error.message, error.hint)
            return
        total = sum(kinds.total() for kinds in counts.values())
        if not total:
            hint = "run `feast apply`, and check that the user may read its objects"
            yield Finding(what, "warning", f"{self.shown} is readable and empty", hint)
            return
        yield Finding(what, "ok", f"{self.shown} is readable: {plural(total, 'object')}")
        yield Finding("Feast server id", "ok", identity)
        for project, kinds in sorted(counts.items()):
            yield Finding("Feast project", "ok", f"{project or 'none'}: {_in_words(kinds)}")

    def close(self) -> None:
        """Release connections, if there are any; safe to call twice."""


def split_registry(content: bytes, shown: str = "") -> Iterator[RawObject]:
    """Yield the objects of a serialized registry, once all of its frame is seen to be sound.

    `shown` is its address in errors.

    Raises:
        ProtocolMismatchError: this is no registry, or it breaks off inside an object.

    Cost: a second copy of the content.
    """
    try:
        frame = FRAMES["RegistryFrame"].FromString(content)
    except DecodeError:
        frame = None
    if frame is None or not frame.ListFields():
        what = "the file is empty" if not content else f"it starts with {content[:20]!r}"
        raise ProtocolMismatchError(
            f"the registry {shown} is not a Feast registry, or incomplete: {what}",
            hint="use the file that `feast apply` writes, such as data/registry.db; if it is that "
            "file, run `feast apply` again",
        )
    for kind in KINDS:
        for proto in getattr(frame, kind):
            yield raw_object(kind, proto)


def raw_object(kind: Kind, proto: bytes, project: str = "") -> RawObject:
    """Return the object that `proto` is, by its own name as far as that can be read.

    `project` is the default for an object without one.
    """
    try:
        frame = FRAMES["ObjectFrame"].FromString(proto)
        named = frame if kind == "data_source" else frame.spec
        name = named.name.decode()
        of_kind = {"project": "name", "entity": "entity_project"}
        own = getattr(named, of_kind.get(kind, "project")).decode()
    except (DecodeError, UnicodeDecodeError):
        return RawObject(kind, project, "", proto)
    return RawObject(kind, own or project, name, proto)


def _in_words(counts: Counter[str]) -> str:
    words = []
    for kind in KINDS:
        if kind != "project" and counts[kind]:
            noun = kind.replace("_", " ")
            words.append(plural(counts[kind], noun, "entities" if noun == "entity" else None))
    return ", ".join(words) or "nothing"
