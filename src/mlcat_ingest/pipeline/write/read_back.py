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

from mlcat_ingest.client.base import StoredEntity, each_type
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


class _Sent(NamedTuple):
    """An aspect as it was sent, with the names of those of its fields that are not empty.

    A server stores or drops alike what is of one entity type and environment, its `group`.
    """

    group: str
    aspect: str
    fields: tuple[str, ...]

    @property
    def parts(self) -> "list[_Sent]":
        """The aspect as a whole, which has no fields, and each field alone."""
        return [self._replace(fields=one) for one in ((), *((name,) for name in self.fields))]

    def __str__(self) -> str:
        return ".".join([f"{self.group.partition(' ')[0]}: {self.aspect}", *self.fields])


class ReadBack:
    """Takes note of what a run wrote, and reads samples of it at the end. Safe for threads."""

    def __init__(self, context: RunContext) -> None:
        """Read from the catalog, and count what it does not store."""
        self._context = context
        self._lock = threading.Lock()
        self._entities: Counter[str] = Counter()
        self._sent: Counter[_Sent] = Counter()
        self._samples: defaultdict[_Sent, list[str]] = defaultdict(list)

    def take(self, arrived: Sequence[MergedEntity]) -> None:
        """Take note of entities that the catalog acknowledged.

        The former value of an aspect that is written again is no sample any more; the new one is.
        """
        again = {(merged.urn, one.aspect_name) for merged in arrived for one in merged.proposals}
        with self._lock:
            lost = set[tuple[str, str]]()
            for part, urns in self._samples.items():
                left = [urn for urn in urns if (urn, part.aspect) not in again]
                if len(left) < len(urns):
                    lost.add((part.group, part.aspect))
                urns[:] = left
            for merged in arrived:
                group = _group_of(merged.urn)
                self._entities[group] += 1
                for sent in _sent_of(group, merged):
                    self._sent[sent] += 1
                    wanted = self._sent[sent] <= SAMPLES or (group, sent.aspect) in lost
                    for part in sent.parts if wanted else ():
                        if len(self._samples[part]) < SAMPLES:
                            self._samples[part].append(merged.urn)

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
        names: defaultdict[str, set[str]] = defaultdict(set)
        groups: defaultdict[str, set[str]] = defaultdict(set)
        for sent, urns in self._samples.items():
            groups[sent.group].update(urns)
            # The key aspect shows whether the entity is there at all.
            entity_type = sent.group.partition(" ")[0]
            names[entity_type] |= {sent.aspect, key_aspect_name(entity_type)}
        asked = [urn for urns in self._samples.values() for urn in urns]
        stored = each_type(self._context.sink.read_many, asked, names.__getitem__)
        dropped: Counter[str] = Counter()
        for group, sampled in groups.items():
            missing = sampled - stored.keys()
            if sampled and len(missing) == len(sampled):
                dropped[f"{group}: the entity"] = self._entities[group]
            else:
                dropped.update(f"{urn}: the entity" for urn in missing)
        lost = {sent for sent in self._samples if self._is_lost(sent, stored)}
        for sent, count in self._sent.items():
            whole, *fields = sent.parts
            for part in lost.intersection([whole] if whole in lost else fields):
                dropped[str(part)] += count
        return dropped

    def _is_lost(self, part: _Sent, stored: Mapping[str, StoredEntity]) -> bool:
        entities = [stored[urn] for urn in self._samples[part] if urn in stored]
        if not part.fields:
            return bool(entities) and all(part.aspect not in entity for entity in entities)
        values = [entity[part.aspect].value for entity in entities if part.aspect in entity]
        return bool(values) and not any(value.get(part.fields[0]) for value in values)


def _sent_of(group: str, merged: MergedEntity) -> Iterator[_Sent]:
    for proposal in merged.proposals:
        name = proposal.aspect_name
        spec = ASPECTS.get(name)
        if proposal.change_type != "DELETE" and not (spec and spec.timeseries):
            sent = without_computed(name, proposal.aspect)
            yield _Sent(group, name, tuple(filter(sent.get, sent)))


def _group_of(urn: str) -> str:
    entity_type = entity_type_of(urn)
    has_env = UrnPart.FABRIC in KINDS.get(entity_type, ())
    return f"{entity_type} in {urn.rpartition(',')[2][:-1]}" if has_env else entity_type
