"""The merge: what a source says, united with what the catalog holds; pure.

`stored` is what the catalog holds, `fresh` what the source says in this pass. Beside the entries
that a recipe adds to an entity stands which ones they are, the base, so that what the source drops
goes and what others wrote stays.
"""

from mlcat_ingest.pipeline.merge.aspects import merge_aspect, without_claims
from mlcat_ingest.pipeline.merge.entity import (
    Merge,
    MergedEntity,
    Outcome,
    merge_entity,
    propose,
)
from mlcat_ingest.pipeline.merge.fold import fold
from mlcat_ingest.pipeline.merge.rebase import rebase_aspect, with_claims_of
from mlcat_ingest.pipeline.merge.retract import retract_entity, whole_entity
from mlcat_ingest.pipeline.merge.rules import UNION, MergeRules
from mlcat_ingest.pipeline.merge.shape import properties_aspect, version_set_of, without_computed

__all__ = [
    "UNION",
    "Merge",
    "MergeRules",
    "MergedEntity",
    "Outcome",
    "fold",
    "merge_aspect",
    "merge_entity",
    "properties_aspect",
    "propose",
    "rebase_aspect",
    "retract_entity",
    "version_set_of",
    "whole_entity",
    "with_claims_of",
    "without_claims",
    "without_computed",
]
