"""Read-back: aspects that the catalog acknowledged and did not store are found by sampling.

A DataHub server drops an aspect or a field that its release does not know, and a proposal whose URN
or environment it cannot use, and acknowledges the request all the same.

Source: `IgnoreUnknownMutator.java`, `AspectsBatchImpl.java`.
"""

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from mlcat_ingest.client.base import StoredEntity
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.metadata.registry import ASPECTS, key_aspect_name
from mlcat_ingest.metadata.urn import KINDS, UrnPart, entity_type_of
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.rules import without_computed

log = logging.getLogger(__name__)

SAMPLES: Final = 3
"""Entities that are read again for each aspect and field: one may have been changed by others."""

PAUSE_S: Final = 1.0
"""How long a missing value may take to reach the database replica that a server reads from."""


class _UrnGroup(NamedTuple):
    """Entities whose URNs a server uses or drops alike; `env` is "" where URNs have none."""

    entity_type: str
    env: str

    def __str__(self) -> str:
        return f"{self.entity_type} in {self.env}" if self.env else self.entity_type


class _Shape(NamedTuple):
    """An aspect as it was sent: the names of its fields that are not empty."""

    group: _UrnGroup
    aspect: str
    fields: tuple[str, ...]


class _SentValue(NamedTuple):
    """An aspect of a group, or a field of it; `field` is None for the aspect."""

    group: _UrnGroup
    aspect: str
    field: str | None

    def __str__(self) -> str:
        name = self.aspect if self.field is None else f"{self.aspect}.{self.field}"
        return f"{self.group.entity_type}: {name}"


class ReadBack:
    """Takes note of what a run wrote, and reads samples of it at the end. Safe for threads."""

    def __init__(self, context: RunContext) -> None:
        """Read from the catalog, and count what it does not store."""
        self._context = context
        self._lock = threading.Lock()
        self._entities: Counter[_UrnGroup] = Counter()
        self._shapes: Counter[_Shape] = Counter()
        self._samples: defaultdict[_SentValue, list[str]] = defaultdict(list)

    def take(self, arrived: Sequence[MergedEntity]) -> None:
        """Take note of entities that the catalog acknowledged."""
        sent = [(merged.urn, shape) for merged in arrived for shape in _shapes_of(merged)]
        counts = Counter([shape for _, shape in sent])
        with self._lock:
            self._entities.update([_group_of(merged.urn) for merged in arrived])
            rare = {shape for shape in counts if self._shapes[shape] < SAMPLES}
            self._shapes.update(counts)
            for urn, shape in sent if rare else ():
                if shape in rare:
                    self._sample(urn, shape)

    def _sample(self, urn: str, shape: _Shape) -> None:
        for field in (None, *shape.fields):
            urns = self._samples[_SentValue(shape.group, shape.aspect, field)]
            if len(urns) < SAMPLES:
                urns.append(urn)

    def finish(self) -> None:
        """Count what is not stored of all that was written.

        Cost: one request for each entity type that was written; as many again where something is
        missing.
        """
        if not self._context.sink.facts.keeps or not self._samples:
            return
        try:
            dropped = self._count_dropped()
            if dropped:
                self._context.cancellation.pause(PAUSE_S)
                dropped = self._count_dropped()
        except MlcatError as error:
            self._context.ledger.note(
                "not_read_back", f"written entities could not be read back: {error}"
            )
            return
        for what, count in dropped.items():
            entities = plural(count, "entity", "entities")
            log.warning("the catalog does not store %s of %s", what, entities)
            self._context.ledger.count(what, dropped=count)
        if dropped:
            # Their stamps are those of what was sent: the next full pass has to send it again.
            self._context.ledger.invalidate_stamps()

    def _count_dropped(self) -> Counter[str]:
        stored = self._read()
        dropped: Counter[str] = Counter()
        for group, urns in self._sample_urns().items():
            missing = urns.keys() - stored.keys()
            if len(missing) == len(urns):
                dropped[f"{group}: the entity"] = self._entities[group]
            else:
                dropped.update(f"{urn}: the entity" for urn in missing)
        lost = {sent for sent in self._samples if self._is_lost(sent, stored)}
        for shape, count in self._shapes.items():
            whole = _SentValue(shape.group, shape.aspect, None)
            if whole in lost:
                dropped[str(whole)] += count
                continue
            for field in shape.fields:
                sent = whole._replace(field=field)
                if sent in lost:
                    dropped[str(sent)] += count
        return dropped

    def _is_lost(self, sent: _SentValue, stored: Mapping[str, StoredEntity]) -> bool:
        entities = [stored[urn] for urn in self._samples[sent] if urn in stored]
        if sent.field is None:
            return bool(entities) and all(sent.aspect not in entity for entity in entities)
        values = [entity[sent.aspect].value for entity in entities if sent.aspect in entity]
        return bool(values) and all(not value.get(sent.field) for value in values)

    def _sample_urns(self) -> dict[_UrnGroup, dict[str, None]]:
        """Return the URNs of the samples by group, each once."""
        groups: dict[_UrnGroup, dict[str, None]] = {}
        for sent, urns in self._samples.items():
            groups.setdefault(sent.group, {}).update(dict.fromkeys(urns))
        return groups

    def _read(self) -> dict[str, StoredEntity]:
        urns: dict[str, dict[str, None]] = {}
        aspects: dict[str, set[str]] = {}
        for sent, sampled in self._samples.items():
            entity_type = sent.group.entity_type
            urns.setdefault(entity_type, {}).update(dict.fromkeys(sampled))
            # The key aspect shows whether the entity is there at all.
            aspects.setdefault(entity_type, {key_aspect_name(entity_type)}).add(sent.aspect)
        stored: dict[str, StoredEntity] = {}
        for entity_type, members in urns.items():
            stored.update(self._context.sink.read_many(list(members), aspects[entity_type]))
        return stored


def _shapes_of(merged: MergedEntity) -> Iterator[_Shape]:
    group = _group_of(merged.urn)
    for proposal in merged.proposals:
        name = proposal.aspect_name
        spec = ASPECTS.get(name)
        if proposal.change_type != "DELETE" and not (spec and spec.timeseries):
            sent = without_computed(name, proposal.aspect)
            yield _Shape(group, name, tuple(filter(sent.get, sent)))


def _group_of(urn: str) -> _UrnGroup:
    entity_type = entity_type_of(urn)
    kind = KINDS.get(entity_type)
    has_env = kind is not None and kind.parts[-1] is UrnPart.FABRIC
    return _UrnGroup(entity_type, urn.rpartition(",")[2][:-1] if has_env else "")
