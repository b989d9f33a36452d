"""Makes `docs/reference/performance.md`: its template, filled with what the benchmark printed.

python tests/benchmarks/make_page.py
"""

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/reference/performance.md"
TEMPLATE = HERE / "performance.md.in"
MEASURED = HERE / "measured.txt"


def tables(printed: str) -> dict[str, str]:
    """Return the tables that `bench_mlflow.py` printed, by part."""
    _, *parts = re.split(r"^## (\w+)\n", printed, flags=re.MULTILINE)
    return {name: table.strip() for name, table in zip(parts[::2], parts[1::2], strict=True)}


class Tables(dict[str, str]):
    """Tables by part, with a sentence in place of those that were not taken on a quiet machine."""

    def __missing__(self, part: str) -> str:
        """Return how to print the table of `part`."""
        return f"Not measured yet; `bench_mlflow.py --parts {part}` prints it."


def page() -> str:
    """Return the page; each `{part}` of the template is the table of that part."""
    return TEMPLATE.read_text().format_map(Tables(tables(MEASURED.read_text())))


if __name__ == "__main__":
    PAGE.write_text(page())
