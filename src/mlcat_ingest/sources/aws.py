"""Sessions of boto3, and errors of AWS translated into errors of ours, each with its cure.

`aws_errors.csv` has the translations by code. A code that means something else to a service has the
service's name before it, a class of boto3's own errors `boto3`; an answer of S3 to HEAD, or of
another service in its place, has the status alone.
"""

import csv
from pathlib import Path
from typing import Any, Final

from mlcat_ingest import errors
from mlcat_ingest.errors import MlcatError, ProtocolMismatchError, SourceUnavailableError

NO_SUCH: Final = frozenset({"ResourceNotFound", "ResourceNotFoundException"})
"""Codes of AWS for an item that does not exist."""

_CONNECT_TIMEOUT_S: Final = 10
_NETWORK: Final = "check the network, `endpoint_url` and `region`"

_TABLE: Final = Path(__file__).with_name("aws_errors.csv").read_text("utf-8").splitlines()
_ERRORS: Final = {code: row for row in csv.DictReader(_TABLE) for code in row["codes"].split()}


def open_session(**options: str | None) -> Any:
    """Return a session of boto3 with these credentials and region; nothing is contacted.

    Raises:
        BotoCoreError: the profile does not exist.
    """
    from boto3.session import Session

    return Session(**options)


def client_settings(*, timeout_s: float, retries: int) -> Any:
    """Return the settings of a client of boto3."""
    from botocore.config import Config

    # Adaptive, it sends less where AWS turns requests away, and waits between attempts.
    return Config(
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=timeout_s,
        retries={"total_max_attempts": retries + 1, "mode": "adaptive"},
    )


def aws_error(error: Exception, action: str) -> MlcatError:
    """Return our error for an error of AWS or boto3 during an `action`.

    `action` is as a policy names it, such as `sagemaker:Search`.
    """
    from botocore.exceptions import ClientError

    name, service, answer = type(error).__name__, "boto3", {}
    if isinstance(error, ClientError):
        # boto3 assumes the role of a profile before the first request of any client.
        if error.operation_name.startswith("AssumeRole"):
            action = f"sts:{error.operation_name}"
        answer, service = error.response, action.partition(":")[0]
        name = str(answer.get("Error", {}).get("Code", ""))
    if row := _ERRORS.get(f"{service}:{name}") or _ERRORS.get(name):
        kind: type[MlcatError] = getattr(errors, row["error"])
        message, hint = (row[key].format(action=action, code=name) for key in ("message", "hint"))
        return kind(message, hint=hint)
    if service == "boto3":
        return SourceUnavailableError(f"AWS does not answer {action}: {name}", hint=_NETWORK)
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if isinstance(status, int) and status >= 500:
        message = f"{action} failed with {status} {name}".rstrip()
        return SourceUnavailableError(message, hint=_NETWORK)
    return ProtocolMismatchError(f"{action} returned {name or status}")
