"""A catalog of one entity, for tests of the merge: it stores what is proposed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Aspect, Entity, Proposal
from mlcat_ingest.pipeline.merge.applied import applied_key, decode
from mlcat_ingest.pipeline.merge.entity import MergedEntity, merge_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from support.fakes import model_urn

WRITER = "prod"
US = Writer(WRITER)
RULES = MergeRules(US)
HOME = "mlModelProperties"


def written(entity: Entity) -> tuple[Proposal, ...]:
    """Return what is sent of an entity to a catalog that has nothing yet, without a base."""
    return merge_entity(entity, None, MergeRules(None)).proposals


@dataclass
class Shelf:
    """One model in a catalog that several writers and people share."""

    urn: str = model_urn("r1")
    aspects: dict[str, Aspect] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)

    def stored(self) -> dict[str, StoredAspect]:
        return {
            name: StoredAspect(value, str(self.versions.get(name, 1)))
            for name, value in self.aspects.items()
        }

    def ingest(self, aspects: Mapping[str, Aspect], rules: MergeRules = RULES) -> MergedEntity:
        """Merge what a source says and write it."""
        return self.write(merge_entity(Entity(self.urn, aspects), self.stored(), rules))

    def write(self, merged: MergedEntity) -> MergedEntity:
        """Write what came of a merge, and return it."""
        for proposal in merged.proposals:
            if proposal.change_type == "DELETE":
                del self.aspects[proposal.aspect_name]
            else:
                self.put(proposal.aspect_name, proposal.aspect)
        return merged

    def put(self, name: str, value: Aspect) -> None:
        """Write as somebody who knows nothing of merging."""
        self.aspects[name] = _with_computed(name, json.loads(json.dumps(value)))
        self.versions[name] = self.versions.get(name, 0) + 1

    def edit(self, name: str, **fields: Any) -> None:
        """Change fields of an aspect as a person does, all else left as it is."""
        self.put(name, {**self.aspects.get(name, {}), **fields})

    def drop(self, name: str, field: str) -> None:
        """Take a field away from an aspect as a person does."""
        self.put(name, {key: one for key, one in self.aspects[name].items() if key != field})

    def field(self, name: str, default: Any = None, aspect: str = HOME) -> Any:
        return self.aspects.get(aspect, {}).get(name, default)

    def custom(self) -> dict[str, str]:
        """The custom properties that are no bases."""
        found: dict[str, str] = self.field("customProperties", {})
        return {key: value for key, value in found.items() if not key.startswith("mlcat.applied.")}

    def base(self, writer: str = WRITER) -> dict[str, dict[str, str]]:
        base = decode(self.field("customProperties", {})[applied_key(writer)])
        assert base is not None
        return {aspect: dict(applied) for aspect, applied in base.items()}

    def strip(self, writer: str = WRITER) -> None:
        """Take the base away, as an upsert of somebody who does not know it does."""
        custom = dict(self.field("customProperties", {}))
        custom.pop(applied_key(writer), None)
        self.edit(HOME, customProperties=custom)


def _with_computed(name: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return an aspect with what DataHub's server computes of it, as its answers show."""
    if name == "ownership" and value["owners"]:
        types: dict[str, list[str]] = {}
        for one in value["owners"]:
            named = f"urn:li:ownershipType:__system__{one.get('type', 'NONE').lower()}"
            types.setdefault(one.get("typeUrn", named), []).append(one["owner"])
        return {**value, "ownerTypes": types}
    if name == "domains" and "domainAssociations" not in value:
        return {**value, "domainAssociations": [{"domain": one} for one in value["domains"]]}
    return value
