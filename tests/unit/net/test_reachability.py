"""The step at which a request failed, by its exception; and what is reported of a clock."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.errors import SourceUnavailableError
from mlcat_ingest.net.http import Http, clock
from mlcat_ingest.net.session import HttpOptions, Trust, skew_s
from mlcat_ingest.testing.service import ServiceAnswer, failing_service
from support.certificates import make_certificate


def failure_at(url: str, trust: Trust | None = None) -> SourceUnavailableError:
    options = HttpOptions(retries=0, trust=trust or Trust())
    http = Http(url, peer="the service", unavailable=SourceUnavailableError, options=options)
    with http, pytest.raises(SourceUnavailableError) as raised:
        http.request("GET", "/")
    return raised.value


@pytest.mark.process
@pytest.mark.parametrize(
    ("certificate", "cause", "hint"),
    [
        ({"ends_in": timedelta(days=-3)}, "certificate has expired", "renew the certificate"),
        ({"name": "DNS:mlflow.example.org"}, "127.0.0.1", "use the name that the certificate"),
    ],
    ids=["expired", "another name"],
)
def test_a_rejected_certificate_is_reported_with_its_own_cure(
    certificate: dict[str, Any], cause: str, hint: str, tmp_path: Path
) -> None:
    pem = make_certificate(tmp_path, **certificate)
    with failing_service([ServiceAnswer()], certificate=pem) as server:
        failure = failure_at(server.url, Trust(str(pem)))
        assert server.requests == []
    assert cause in failure.message
    assert str(failure.hint).startswith(hint)


@pytest.mark.parametrize(
    ("sent_s", "heard_s", "expected"),
    [
        (100.0, 100.2, 0.0),
        (100.9, 101.1, 0.0),
        (95.0, 96.0, 4.0),
        (120.0, 121.0, -19.0),
        (50.0, 130.0, 0.0),
    ],
)
def test_a_clock_is_only_as_far_off_as_has_to_be(
    sent_s: float, heard_s: float, expected: float
) -> None:
    assert skew_s("Thu, 01 Jan 1970 00:01:40 GMT", sent_s, heard_s) == expected


def test_what_is_reported_of_a_clock() -> None:
    assert skew_s("yesterday", 1, 2) is None
    assert clock("it", None).outcome == "warning"
    assert clock("it", -4.9).outcome == "ok"
    slow = clock("it", -90.0)
    assert (slow.outcome, slow.detail) == ("warning", "90 s behind this machine's")
    assert clock("it", 7200.0).detail == "7,200 s ahead of this machine's"
