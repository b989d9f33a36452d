"""Feast's value types as the data types that features have in the catalog.

Types are told by number: Feast's SDK writes numbers that its own definitions do not name.
"""

from collections.abc import Mapping
from typing import Final

from mlcat_ingest.metadata.aspects.ml import MLFeatureDataType
from mlcat_ingest.sources.feast.messages import VALUE_TYPES

_SCALARS: Final[Mapping[int, MLFeatureDataType]] = {
    1: "BYTE",
    2: "TEXT",
    3: "ORDINAL",
    4: "ORDINAL",
    5: "CONTINUOUS",
    6: "CONTINUOUS",
    7: "BINARY",
    8: "TIME",
    20: "MAP",
    30: "BYTE",
    31: "IMAGE",
    32: "MAP",
    34: "MAP",
    36: "NOMINAL",
    37: "NOMINAL",
    44: "CONTINUOUS",
    47: "MAP",
    48: "TIME",
}


def feature_type(number: int) -> MLFeatureDataType | None:
    """Return the data type of features whose value type has this number, None if it says none."""
    name = VALUE_TYPES.get(number, "")
    if name.endswith("_LIST"):
        return "SEQUENCE"
    if name.endswith("_SET"):
        return "SET"
    return _SCALARS.get(number)


def type_name(number: int) -> str:
    """Return what Feast calls the value type with this number, or the number itself."""
    return VALUE_TYPES.get(number, str(number))
