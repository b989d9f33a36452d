r"""Undoing the `\uXXXX` that DataHub's Python client makes of text beyond ASCII."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.catalog.web.rest.proposals import _unescape, unescape_envelope

CLIENT = {"clientId": "acryl-datahub", "clientVersion": "1.7"}


def mangled(text: str) -> str:
    """What the client does: `preserve_unicode_escapes` of its `rest_emitter`."""
    return re.sub(r"[^\x00-\x7F]", lambda found: f"\\u{ord(found[0]):04x}", text)


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "é",
        "größe",
        "été 2",  # followed by a letter that is a digit too
        "naïveté",
        "Ωmega",
        "модель",
        "модель1",  # noqa: RUF001
        "模型a1",  # no character has the five digits
        "모델0",
        "נתונים5",  # noqa: RUF001
        "\ue000",
        "€",
        "a\\b",
        "\\u0041",  # what stands for ASCII was never made by the client
        "\\ud83d",  # half a pair neither
        "\\u00E9",  # nor capital digits
    ],
)
def test_what_is_unambiguous_comes_back(text: str) -> None:
    assert _unescape(mangled(text)) == text


@pytest.mark.parametrize("text", ["😀", "ὠ0", "あa", "✓a é", "é 😀 é", "ﬁ0", "\U00100000"])
def test_what_is_ambiguous_stays_as_it_came(text: str) -> None:
    assert _unescape(mangled(text)) == mangled(text)


def test_text_beyond_ascii_was_not_altered() -> None:
    assert _unescape("é\\u00e9") == "é\\u00e9"


@given(st.text(st.characters(max_codepoint=0xFFF, exclude_characters="\\"), max_size=20))
def test_all_of_the_first_four_thousand_characters_come_back(text: str) -> None:
    assert _unescape(mangled(text)) == text


ASSIGNABLE = st.characters(
    max_codepoint=0x3FFFF, exclude_characters="\\", exclude_categories=["Cs"]
) | st.characters(min_codepoint=0xE0000)


@given(st.text(ASSIGNABLE, max_size=20))
def test_text_comes_back_or_stays_as_it_came(text: str) -> None:
    assert _unescape(mangled(text)) in {text, mangled(text)}


def test_the_envelope_is_undone_and_the_aspect_is_not() -> None:
    sent = {
        "entityType": "mlModel",
        "entityUrn": mangled("urn:li:mlModel:(urn:li:dataPlatform:mlflow,größe,PROD)"),
        "changeType": "UPSERT",
        "aspect": {"value": '{"description": "\\u00e9"}', "contentType": "application/json"},
        "headers": {"X-Note": mangled("é")},
        "systemMetadata": {
            "runId": mangled("nächtlich"),
            "lastObserved": 3,
            "properties": {**CLIENT, "note": mangled("ü")},
        },
    }
    undone = unescape_envelope(sent)
    assert undone == {
        **sent,
        "entityUrn": "urn:li:mlModel:(urn:li:dataPlatform:mlflow,größe,PROD)",
        "headers": {"X-Note": "é"},
        "systemMetadata": {
            "runId": "nächtlich",
            "lastObserved": 3,
            "properties": {**CLIENT, "note": "ü"},
        },
    }


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        "text",
        {},
        {"properties": None},
        {"properties": []},
        {"properties": {"clientId": "other"}},
    ],
)
def test_proposals_of_other_clients_are_left_alone(metadata: Any) -> None:
    sent = {"entityUrn": "urn:li:tag:\\u00e9", "systemMetadata": metadata}
    assert unescape_envelope(sent) is sent


@pytest.mark.parametrize("sent", [None, 3, "x", []])
def test_what_is_no_proposal_is_left_alone(sent: Any) -> None:
    assert unescape_envelope(sent) is sent


def test_no_depth_of_nesting_matters() -> None:
    deep: Any = "\\u00e9"
    for _ in range(5_000):
        deep = {"a": deep}
    sent = {"systemMetadata": {"properties": CLIENT, "deep": deep}}
    assert unescape_envelope(sent)["systemMetadata"]["properties"] == CLIENT
