"""The link from a task to the pages of the catalog that it wrote to."""

from typing import Any

from airflow.sdk import BaseOperatorLink


class CatalogLink(BaseOperatorLink):
    """A button of the task's page; Airflow keeps its address when the task has ended."""

    @property
    def name(self) -> str:
        """The words on the button."""
        return "Catalog"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return where the catalog that `operator` wrote to shows its pages, empty for none."""
        del ti_key
        return str(getattr(operator, "catalog_page", "") or "")
