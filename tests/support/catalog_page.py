"""The tables of the page of the catalog in the documentation."""

from pathlib import Path

from support.page_blocks import table_rows

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "catalog.md"


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the tables between a heading and the next of its level."""
    found = table_rows(PAGE.read_text(), heading)
    return [[cell.replace("`", "") for cell in row] for row in found if row[0].startswith("`")]


def clients_of_endpoints() -> dict[str, str]:
    """Return the client of each endpoint, such as `GET /config`, that the page names."""
    return {name: client for name, _, client in rows("## Endpoints")}
