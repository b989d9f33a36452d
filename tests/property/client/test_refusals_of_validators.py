"""What a validator of the service refuses is told apart from a conflict, whatever users wrote."""

from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.client.rest.responses import MAX_MESSAGE, is_conflict, server_message
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.net.http import Reply
from support.fakes import model_urn
from support.validator_refusals import FORMS, PRECONDITION, VALIDATION

WORDS = "Expected version 1, actual version 2"

forms = st.sampled_from(sorted(FORMS))
versions = st.integers(-1, 10**9)
fragments = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            WORDS,
            f"msg={WORDS}",
            f", msg={WORDS})]}}",
            f"PRECONDITION {WORDS}",
            f"[PRECONDITION {WORDS}]}}",
            f"Exceptions: [PRECONDITION {WORDS}]}}",
            f"Exceptions: [AspectValidationException(subType=PRECONDITION, msg={WORDS})]}}",
        ]
    ),
)
descriptions = st.lists(fragments, max_size=5).map("".join)
sentences = st.one_of(
    st.just("IsLatest should not be specified, this is a computed field."),
    descriptions.map("The label '{}' is in use already".format),
    descriptions.map("{} (is no description)".format),
)


def refused(form: str, description: str, kind: str, sentence: str, status: int = 422) -> Reply:
    message = FORMS[form](model_urn("m"), description, kind, sentence)
    body = dumps({"message": message, "status": status})
    return Reply(status, {}, body, "the catalog service", "http://here/aspects")


@given(forms, descriptions, versions, versions)
def test_a_conflict_is_one_whatever_the_description_says(
    form: str, description: str, expected: int, actual: int
) -> None:
    sentence = f"Expected version {expected}, actual version {actual}"
    reply = refused(form, description, PRECONDITION, sentence)
    assert is_conflict(reply)
    assert server_message(reply) == sentence


@given(forms, descriptions, sentences)
def test_another_validators_refusal_is_no_conflict(
    form: str, description: str, sentence: str
) -> None:
    assert not is_conflict(refused(form, description, VALIDATION, sentence))


@given(forms, descriptions, st.text("abc ()'.é", min_size=1, max_size=30).map("No {} here".format))
def test_a_refusal_is_shown_as_its_sentence(form: str, description: str, sentence: str) -> None:
    shown = server_message(refused(form, description, VALIDATION, sentence))
    assert shown == " ".join(sentence.split())


@given(forms, descriptions, sentences)
def test_a_failed_precondition_is_a_conflict_whatever_it_says(
    form: str, description: str, sentence: str
) -> None:
    reply = refused(form, description, VALIDATION, sentence, status=412)
    assert is_conflict(reply)
    assert len(server_message(reply)) <= MAX_MESSAGE
