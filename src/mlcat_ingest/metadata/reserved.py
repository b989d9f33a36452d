"""Names that belong to this package wherever they occur, and the limits of one request.

Standard library only: a scheduler loads this with each task.
"""

from typing import Final

OWN_PREFIX: Final = "mlcat."
"""Custom properties of this prefix are this package's own: in no base, and never taken away."""

DIRECTIONS: Final = "source.mlcat.directions"
"""Custom property of a group: the tag `mlcat.directions` of its experiment or registered model,
which says which values of metrics are better: `wer=minimize, share=maximize`."""

SOURCE_KEY: Final = "mlcat.source"
"""Custom property naming the sources of an entity: `<type>:<server>:<workspace>`, comma-joined."""

ALIAS_LOG: Final = "mlcat.alias_log"
"""Custom property of a registered model's group: where its aliases were seen, a JSON list; see
`metadata.aliases`."""

APPLIED_PREFIX: Final = "mlcat.applied."
"""Prefix of the custom property that holds the base of one recipe, whose name follows."""

VERDICTS_PREFIX: Final = "mlcat.verdicts."
"""Prefix of the custom property with the tags that verdicts of metadata tests gave an entity,
comma-joined, by the recipe whose name follows. Its base has them, too."""

INCIDENT_PREFIX: Final = "mlcat-"
"""Prefix of the id of an incident that a metadata test opened."""

CLAIMS: Final = "mlcat.failing"
"""First word of the message in `created` of an incident; recipes for which a test fails follow."""

RENAMED_TO: Final = "mlcat.renamed_to"
"""Custom property of a group whose experiment has another name: what people put on the group was
copied to this one, or is about to be. It is removed if an experiment has that name again."""

COPIED_TO: Final = "mlcat.copied_to"
"""Custom property beside `mlcat.renamed_to`: empty until what people put there is copied."""

REUSED: Final = "mlcat.reused"
"""Custom property, `true`: the name was another object's before, and what people put on that one
is still here."""

FEATURES_PREFIX: Final = "mlcat.features."
"""Prefix of the custom properties of a model that say where its features come from."""

FEATURES_RESOLVED_BY: Final = "mlcat.features.resolvedBy"
"""Custom property: the rule that the features of a model come from."""

FEATURES_APPROXIMATE: Final = "mlcat.features.approximate"
"""Custom property: why they may be others than the model was trained on."""

FEATURES_UNRESOLVED: Final = "mlcat.features.unresolved"
"""Custom property: references that no feature was found for."""

PRIMARY_KEYS: Final = "mlcat.primary_keys"
"""Custom property of a feature table: its keys as JSON, in a catalog that has no such entities."""

DESCRIBED_BY: Final = "mlcat.described_by"
"""Custom property of a dataset: start and model of the run that its description comes from."""

CHECK_KEY: Final = "mlcat.check"
"""Custom property of the entity that `check --write` writes and deletes."""

ENTRY_PREFIXES: Final = (FEATURES_PREFIX, PRIMARY_KEYS)
"""Custom properties of these prefixes are merged as entries: they come and go with the source."""

FEATURES_TAG: Final = "mlcat.features"
"""The tag by which people say which features a run, logged model or version was made with."""

USES_TAG: Final = "mlcat.uses"
"""The tag or parameter by which people say which models, skills and tools an agent uses."""

TRAINING_JOB_TAG: Final = "mlcat.training_job"
"""The tag of a run whose value is the URN of the job that trained it, or of one run of the job."""

TESTS_TAG: Final = "mlcat.tests"
"""The tag of a run or version with the verdict of the catalog's metadata tests."""

TESTS_AT_TAG: Final = "mlcat.tests_at"
"""The tag of a run or version with the time since which `mlcat.tests` has its value."""

VERDICT_TAGS: Final = frozenset({TESTS_TAG, TESTS_AT_TAG})

TYPE_TAG: Final = "mlcat.type"
"""The tag of a field, or parameter of a feature, with its data type, such as COUNT."""

MAX_REQUEST_ITEMS: Final = 200
"""Most URNs in one request to the catalog, and proposals in the first ones of a run, as DataHub's
own clients hold it."""

MAX_PROPOSALS: Final = 1_000
"""Most proposals in one request to a catalog that answers fast."""

MAX_REQUEST_BYTES: Final = 15 * 1024 * 1024
"""Most bytes of proposals in one request; a DataHub server's own limit is 16,000,000."""


def is_own(key: str) -> bool:
    """Return whether a custom property is this package's own."""
    return key.startswith(OWN_PREFIX) and not key.startswith(ENTRY_PREFIXES)
