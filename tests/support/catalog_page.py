"""The tables of the page of the catalog in the documentation."""

from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "catalog.md"


def rows(heading: str) -> Iterator[list[str]]:
    """Yield the cells of the tables between a heading and the next of its level."""
    level = heading.split(" ", 1)[0]
    _, _, rest = PAGE.read_text().partition(f"\n{heading}\n")
    section = rest.partition(f"\n{level} ")[0]
    for line in section.splitlines():
        if line.startswith("| `"):
            yield [cell.replace("`", "").strip() for cell in line.strip("|").split("|")]


def clients_of_endpoints() -> dict[str, str]:
    """Return the client of each endpoint, such as `GET /config`, that the page names."""
    return {name: client for name, _, client in rows("## Endpoints")}
