"""Numbers written all at once read as each one written alone."""

from hypothesis import example, given
from hypothesis import strategies as st

from mlcat_ingest.sources.mlflow.mapping.text import number_text, number_texts

# Beside any float at all, those around the places where Python begins to write an exponent.
NUMBERS = (
    st.floats()
    | st.floats(1e-6, 1e-3)
    | st.floats(1e15, 1e17)
    | st.integers(-(2**70), 2**70).map(float)
)


@given(st.lists(NUMBERS, max_size=5))
@example([0.0001, 9999999999999998.0, -0.0, 0.1])
@example([0.0001, 1e16])
@example([0.00001, 0.5])
@example([float("nan")])
def test_numbers_are_written_as_each_of_them_is(values: list[float]) -> None:
    assert number_texts(values) == [number_text(value) for value in values]
