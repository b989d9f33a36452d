"""Reads the feature groups of one account and region."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from mlcat_ingest.core.awaiting import Awaits
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import NotAuthorizedError, ProtocolMismatchError
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.sources.definitions.model import Broken, Definition, FeatureTable
from mlcat_ingest.sources.sagemaker.api import Record, SagemakerApi
from mlcat_ingest.sources.sagemaker.checks import findings
from mlcat_ingest.sources.sagemaker.config import SagemakerConfig
from mlcat_ingest.sources.sagemaker.groups import About, GroupMapping

log = logging.getLogger(__name__)

_NEEDED: Final = (
    *("FeatureGroupArn", "FeatureDefinitions"),
    *("RecordIdentifierFeatureName", "EventTimeFeatureName"),
)
"""What every group has, so that one without it was not found as a whole."""

_GOING: Final = "Deleting"


class AwsLocation(NamedTuple):
    """Where feature groups are."""

    account: str
    region: str

    def __str__(self) -> str:
        """Return it as one word."""
        return f"{self.account}_{self.region}"


class GroupColumns(NamedTuple):
    """The names of a group's columns."""

    keys: frozenset[str]
    features: frozenset[str]


class SagemakerReader(Awaits):
    """Reads feature groups; see `sources.definitions.source.DefinitionReader`.

    Search gives everything in one request for each 100 groups. Where it is denied, or gives only
    part of a group, groups are listed and described one by one.
    """

    def __init__(self, config: SagemakerConfig, api: SagemakerApi | None = None) -> None:
        """Contact nothing yet."""
        self._config = config
        self._api = api or SagemakerApi(config)
        self._place: AwsLocation | None = None
        self._tags_denied = False

    def server_id(self) -> str:
        """Return account and region."""
        return str(self.place())

    def place(self) -> AwsLocation:
        """Return account and region, as the groups say them, or who asks where there are none.

        Cost: one request, two where there are no groups.
        """
        if self._place is None:
            first = next((group for page in self._first() for group in page), None)
            arn = "" if first is None else str(first.get("FeatureGroupArn", ""))
            parts = arn.split(":")
            named = AwsLocation(parts[4], parts[3]) if len(parts) > 5 else None
            self._place = named or AwsLocation(*self._api.caller())
        return self._place

    def _first(self) -> Iterator[Sequence[Record]]:
        try:
            yield from self._api.found("FeatureGroup", 1)
        except NotAuthorizedError:
            yield from self._api.listed()

    def read(self) -> Iterator[Definition]:
        """Yield every feature group that is not being deleted.

        Raises:
            AuthenticationError: there are no credentials, or AWS refuses them.
            NotAuthorizedError: groups may neither be found nor listed.
            RateLimitedError, SourceUnavailableError: AWS does not answer, or not any more.
            ProtocolMismatchError: what answers is no SageMaker, or its pages have no end.

        Cost: a request for each 100 groups, and for each 100 features; see the class.
        """
        about, notes = self._about()
        mapping = GroupMapping(self._config.names_own_folder, about)
        for group, has_tags in self._groups():
            if isinstance(group, Broken):
                yield group
            elif group.get("FeatureGroupStatus") != _GOING:
                table = mapping.table(group, has_tags=has_tags)
                yield _with_notes(table, notes)
                notes = ()

    def _about(self) -> tuple[Mapping[tuple[str, str], About] | None, tuple[Note, ...]]:
        """Return what people wrote of features, None and a note where it cannot be read."""
        if not self._config.feature_metadata:
            return None, ()
        found: dict[tuple[str, str], About] = {}
        try:
            for page in self._api.found("FeatureMetadata"):
                for one in page:
                    about = _about(one)
                    if about != About():
                        found[str(one["FeatureGroupName"]), str(one["FeatureName"])] = about
        except (NotAuthorizedError, ProtocolMismatchError) as error:
            log.warning("descriptions and parameters of features cannot be read: %s", error)
            return None, (Note("feature_metadata_unread", error.message),)
        return found, ()

    def _groups(self) -> Iterator[tuple[Record | Broken, bool]]:
        """Yield every group, and whether its tags are among what is known of it."""
        try:
            for page in self._api.found("FeatureGroup"):
                for group in page:
                    if all(group.get(name) for name in _NEEDED):
                        yield group, True
                    else:
                        yield from self._described(str(group["FeatureGroupName"]))
        except NotAuthorizedError as error:
            log.warning("feature groups are described one by one: %s", error)
            for page in self._api.listed():
                for summary in page:
                    yield from self._described(str(summary["FeatureGroupName"]))

    def _described(self, name: str) -> Iterator[tuple[Record | Broken, bool]]:
        """Yield a group that Search does not give as a whole, unless it is gone since."""
        try:
            group = self._api.described(name)
        except NotAuthorizedError as error:
            yield Broken(namespace=None, name=name, reason=str(error)), False
            return
        if group is not None:
            tags = self._tags(str(group["FeatureGroupArn"]))
            yield {**group, "Tags": tags or ()}, tags is not None

    def _tags(self, arn: str) -> Sequence[Record] | None:
        """Return the tags of a group, None where they may not be read."""
        if self._tags_denied:
            return None
        try:
            return self._api.tags(arn)
        except NotAuthorizedError as error:
            log.warning("tags of feature groups cannot be read: %s", error)
            self._tags_denied = True
            return None

    def columns_now(self, group: str) -> GroupColumns | None:
        """Return the columns that a group has now, None where it is gone.

        Cost: one request for each 2,500 features.
        """
        found = self._api.described(group)
        if found is None or found.get("FeatureGroupStatus") == _GOING:
            return None
        keys = {str(found["RecordIdentifierFeatureName"])}
        names = {str(one["FeatureName"]) for one in found["FeatureDefinitions"]}
        return GroupColumns(frozenset(keys), frozenset(names - keys))

    def requests_made(self) -> int:
        """Return how many requests were sent to AWS so far."""
        return self._api.requests

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing."""
        return findings(self._api, lambda: str(self.place()))

    def close(self) -> None:
        """Release connections; safe to call twice."""
        self._api.close()


def _about(record: Record) -> About:
    parameters = {
        str(one["Key"]): str(one.get("Value", "")) for one in record.get("Parameters") or ()
    }
    return About(record.get("Description") or None, parameters)


def _with_notes(table: FeatureTable, notes: tuple[Note, ...]) -> FeatureTable:
    return replace(table, notes=(*notes, *table.notes)) if notes else table
