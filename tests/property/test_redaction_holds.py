"""Whatever a password is, an address with it is shown as the same address without it."""

import json
import re

from hypothesis import example, given
from hypothesis import strategies as st

from mlcat_ingest.core.redaction import (
    _may_have_credentials,
    redact_url,
    redact_urls,
    user_info,
)

USER = st.text(st.characters(codec="utf-8", exclude_characters="/?#:["), max_size=8)
PASSWORD = st.text(st.characters(codec="utf-8"), max_size=12) | st.text("a1@/:?#[]%\\ ", max_size=8)
SCHEME = st.sampled_from(["http", "https", "HTTPS", "postgresql", "mysql+pymysql", "grpc", "s3"])
PLACE = st.sampled_from(["host", "host:5000", "[::1]:80/a/b", "db.example.com/x?token=1#y"])


def may_be_a_port(password: str) -> bool:
    """Whether `user:password` also reads as a host and its port."""
    return re.match(r"\d*(?:[/?#\s]|\Z)", password) is not None


@given(SCHEME, USER, PASSWORD, PLACE)
@example("http", "bob", "p@ss", "host")
@example("http", "bob", "p@s/s", "host")
@example("https", "me@corp", "p?s@s#", "[::1]:80/a/b")
def test_an_address_is_shown_as_if_it_had_no_password(
    scheme: str, user: str, password: str, place: str
) -> None:
    if scheme.lower().startswith("http") and may_be_a_port(password):
        return
    url = f"{scheme}://{user}:{password}@{place}"
    assert redact_url(url) == redact_url(f"{scheme}://{place}")
    assert user_info(url) == (user, password)


@given(SCHEME, USER, PASSWORD, PLACE)
@example("http", "bob", "p@ss", "host")
def test_a_sentence_is_shown_as_if_it_had_no_password(
    scheme: str, user: str, password: str, place: str
) -> None:
    written = f"{user}:{password}"
    if re.search(r"[\s\"]", written) or may_be_a_port(password):
        return
    sentence = "no answer from {} after 3 s"
    shown = redact_urls(sentence.format(f"{scheme}://{written}@{place}"))
    assert shown == redact_urls(sentence.format(f"{scheme}://{place}"))


@given(st.text('htp:/@ab1.?#[] "', max_size=40))
def test_nothing_more_than_the_first_time_is_taken_away(text: str) -> None:
    assert "//" not in text or redact_url(redact_url(text)) == redact_url(text)


@given(st.text('s:/@ab=&;?#" ', max_size=40), st.sampled_from(["sig", "X-Amz-Signature", "token"]))
def test_no_secret_parameter_stays(text: str, name: str) -> None:
    assert "S3CRET" not in redact_urls(f"{text}/?{name}=S3CRET")
    assert "S3CRET" not in redact_urls(f"{text}/?a=1&{name}=S3CRET&{text}")


@given(st.text('s:/@ab=%2F\\u00263&;?#" jdbctoken', max_size=40) | st.text())
def test_a_text_that_changes_has_what_tells_of_credentials(text: str) -> None:
    data = json.dumps({"a": [text]}, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert _may_have_credentials(data) or redact_urls(text) == text
