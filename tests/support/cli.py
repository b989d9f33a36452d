"""The command line as tests see it: what it wrote and how it ended."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


class Invoke(Protocol):
    def __call__(self, *args: str) -> Result: ...
