"""What `mlcat-ingest check` says about SageMaker: each permission by the name of its IAM action."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.sources.sagemaker.api import Record, SagemakerApi

_WITHOUT: Final = {
    "sagemaker:Search": "groups are listed and described one by one, which is slower",
    "sagemaker:Search of features": "features have no descriptions and parameters",
    "sagemaker:ListFeatureGroups": "needed only where sagemaker:Search is denied",
    "sagemaker:DescribeFeatureGroup": "nothing that is gone can be removed",
    "sagemaker:ListTags": "needed only where sagemaker:Search is denied",
}


def findings(api: SagemakerApi, place: Callable[[], str]) -> Iterator[Finding]:
    """Yield whether SageMaker answers, for which account, and what it lets us read.

    Each is tried by itself, so that one which is denied hides no other.

    Cost: at most seven requests.
    """
    try:
        yield Finding("SageMaker account and region", "ok", place())
    except MlcatError as error:
        yield Finding("SageMaker account and region", "failed", error.message, error.hint)
        return
    tried = _Tried()
    found = tried.first("sagemaker:Search", lambda: next(api.found("FeatureGroup", 1), ()))
    tried.first("sagemaker:Search of features", lambda: next(api.found("FeatureMetadata", 1), ()))
    listed = tried.first("sagemaker:ListFeatureGroups", lambda: next(api.listed(), ()))
    group = found or listed
    if group is not None:
        name, arn = str(group["FeatureGroupName"]), str(group["FeatureGroupArn"])
        tried.first("sagemaker:DescribeFeatureGroup", lambda: [api.described(name) or {}])
        tried.first("sagemaker:ListTags", lambda: api.tags(arn))
    yield from tried.findings()


class _Tried:
    """What was tried, and how it went; without Search and List nothing can be read."""

    def __init__(self) -> None:
        self._errors: dict[str, MlcatError | None] = {}

    def first(self, action: str, ask: Callable[[], Iterable[Record]]) -> Record | None:
        """Return the first thing that `ask` gives, None where there is none or it is denied."""
        try:
            found = next(iter(ask()), None)
        except MlcatError as error:
            self._errors[action] = error
            return None
        self._errors[action] = None
        return found

    def findings(self) -> Iterator[Finding]:
        """Yield a finding for each action."""
        neither = self._errors["sagemaker:Search"] and self._errors["sagemaker:ListFeatureGroups"]
        for action, error in self._errors.items():
            what = f"SageMaker permission: {action}"
            if error is None:
                yield Finding(what, "ok")
            else:
                outcome: Literal["failed", "warning"] = "failed" if neither else "warning"
                yield Finding(what, outcome, f"{error.message}: {_WITHOUT[action]}", error.hint)
