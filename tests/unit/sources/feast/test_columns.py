import pytest

from mlcat_ingest.sources.feast.registry import ENUMS, value_name
from mlcat_ingest.sources.feast.views import _feature_type

# By number, as the fact sheet of Feast 0.67 has them.
TYPES = {
    "BYTE": [1, 30],
    "IMAGE": [31],
    "TEXT": [2],
    "ORDINAL": [3, 4],
    "CONTINUOUS": [5, 6, 44],
    "BINARY": [7],
    "TIME": [8, 48],
    "NOMINAL": [36, 37],
    "MAP": [20, 32, 34, 47],
    "SEQUENCE": [*range(11, 19), 21, 33, 35, 38, 39, 42, 45],
    "SET": [*range(22, 30), 40, 41, 43, 46],
    None: [0, 19, 9, 49, 99],
}


@pytest.mark.parametrize(("type_", "numbers"), TYPES.items(), ids=str)
def test_each_number_has_its_type(type_: str | None, numbers: list[int]) -> None:
    assert {_feature_type(number) for number in numbers} == {type_}


def test_every_type_that_feast_names_is_in_the_table() -> None:
    assert {number for numbers in TYPES.values() for number in numbers} >= set(ENUMS["ValueType"])


def test_a_type_without_a_name_is_called_by_its_number() -> None:
    assert [value_name("ValueType", number) for number in (45, 99)] == ["DECIMAL_LIST", "99"]
