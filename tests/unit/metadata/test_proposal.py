import pytest

from mlcat_ingest.errors import CodecError, InvalidUrnError
from mlcat_ingest.metadata.proposal import Proposal

URN = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,modèle,PROD)"


def test_a_proposal_has_its_aspect_as_ascii_text() -> None:
    assert Proposal(URN, "mlModelProperties", {"name": "é\n語\U0001f600"}).wire() == {
        "entityType": "mlModel",
        "entityUrn": URN,
        "changeType": "UPSERT",
        "aspectName": "mlModelProperties",
        "aspect": {
            "value": r'{"name":"\u00e9\n\u8a9e\ud83d\ude00"}',
            "contentType": "application/json",
        },
    }


def test_headers_and_the_change_type_travel_too() -> None:
    sent = Proposal(URN, "status", {}, "CREATE", {"If-Version-Match": "3"}).wire()
    assert sent["changeType"] == "CREATE"
    assert sent["headers"] == {"If-Version-Match": "3"}


def test_a_patch_says_that_it_is_one() -> None:
    patch = {"patch": [{"op": "add", "path": "/name", "value": "x"}]}
    sent = Proposal(URN, "mlModelProperties", patch, "PATCH").wire()
    assert sent["aspect"]["contentType"] == "application/json-patch+json"


def test_the_operations_of_a_patch_are_ascii_too() -> None:
    operations = [{"op": "add", "path": "/naïve", "value": "é"}]
    wire = Proposal(URN, "mlModelProperties", {}, "PATCH", {}, operations).wire()
    assert wire["aspect"]["value"] == r'[{"op":"add","path":"/na\u00efve","value":"\u00e9"}]'


def test_a_patch_sends_its_operations_and_its_record_shows_them() -> None:
    operations = [{"op": "add", "path": "/name", "value": "x"}]
    patch = Proposal(URN, "mlModelProperties", {"name": "x"}, "PATCH", {}, operations)
    wire = patch.wire()
    assert wire["changeType"] == "PATCH"
    assert wire["aspect"] == {
        "value": '[{"op":"add","path":"/name","value":"x"}]',
        "contentType": "application/json-patch+json",
    }
    assert patch.record()["aspect"] == {"json": operations}


def test_what_cannot_be_sent_is_refused() -> None:
    with pytest.raises(CodecError, match="nan"):
        Proposal(URN, "mlModelProperties", {"x": float("nan")}).wire()
    with pytest.raises(InvalidUrnError):
        Proposal("mlModel:x", "mlModelProperties", {}).wire()
