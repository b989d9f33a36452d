import pytest

from mlcat_ingest.catalog.schema.virtual import Identity
from mlcat_ingest.catalog.web.ui.text import (
    _short_number,
    entity_href,
    entity_type,
    kind_name,
    moment,
    scalar,
    stamp,
    web_address,
)

MODEL = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,a%2Cb,PROD)"


def test_what_a_urn_says() -> None:
    assert entity_type(MODEL) == "mlModel"
    assert Identity.of(MODEL) == Identity("a,b", "mlflow", "PROD")
    assert Identity.of("urn:li:mlFeature:(t,f)") == Identity("f", "", "")
    assert Identity.of("urn:li:tag:PRODUCT") == Identity("PRODUCT", "", "")


@pytest.mark.parametrize("urn", ["junk", "", "urn:li:mlModel:(open"])
def test_what_is_no_urn_is_its_own_name(urn: str) -> None:
    assert Identity.of(urn).name == urn


def test_kinds_without_a_label_keep_their_name() -> None:
    assert kind_name("") == ""
    assert kind_name("somethingNew", plural=True) == "somethingNew"
    assert Identity.of("urn:li:somethingNew:(a,b)").name == "b"
    assert kind_name("mlPrimaryKey", plural=True) == "Primary keys"


def test_addresses_encode_all_that_means_something() -> None:
    assert entity_href("a/b?c#d%", tab="x", start=1) == "/entity/a%2Fb%3Fc%23d%25?tab=x&start=1"
    assert entity_href("\ud800") == "/entity/%3F"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://a.example/x?y", "https://a.example/x?y"),
        ("HTTP://a", "HTTP://a"),
        ("javascript:alert(1)", None),
        ("java\nscript:x", None),
        ("//a.example", None),
        ("http://a b", None),
        (None, None),
    ],
)
def test_only_web_addresses_are_links(address: object, expected: str | None) -> None:
    assert web_address(address) == expected


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [
        (0, "1970-01-01 00:00 UTC"),
        (1_700_000_000_000, "2023-11-14 22:13 UTC"),
        (-1, "1969-12-31 23:59 UTC"),
        (10**18, "1000000000000000000"),
        (None, ""),
        ("5", ""),
        (True, ""),
    ],
)
def test_moments(milliseconds: object, expected: str) -> None:
    assert moment(milliseconds) == expected


def test_stamps() -> None:
    assert stamp({"time": 0}) == "1970-01-01 00:00 UTC"
    assert stamp(None) == ""
    assert stamp({}) == ""


def test_scalars() -> None:
    values = [1, 0.5, True, {"boolean": False}, None, "x", {"string": "y"}]
    assert [scalar(value) for value in values] == ["1", "0.5", "true", "false", "", "x", "y"]


def test_numbers_are_shortened_and_text_is_not() -> None:
    texts = ["0.9123456789", "12", "nan", "high", ""]
    assert [_short_number(text) for text in texts] == ["0.912346", "12", "nan", "high", ""]
