"""Ways from a task to the catalog: asset events for other DAGs, and the link to its pages."""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from mlcat_ingest.airflow.sdk import Asset, AssetAlias, BaseOperatorLink

_READABLE: Final = "!$'()*+,-./:;=@_~"


def group_asset(urn: str) -> Asset:
    """Return the asset of a group of models; its name is ASCII, which Airflow needs.

    As a schedule, it starts a DAG when this experiment or registered model changed.
    """
    return Asset(
        name=quote(urn, safe=_READABLE), uri=f"x-mlcat://group/{quote(urn, safe='')}", group="mlcat"
    )


def publish(context: Any, outlets: Iterable[Any], done: Mapping[str, Any]) -> None:
    """Fill a task's outlets: aliases get an event a changed group, the others `extra`.

    Airflow records the events if the task succeeds.
    """
    for outlet in outlets:
        event = context["outlet_events"][outlet]
        if isinstance(outlet, AssetAlias):
            for urn in done["changed_group_urns"]:
                event.add(group_asset(urn), extra={"urn": urn, "recipe": done["recipe"]})
        else:
            event.extra = {name: done[name] for name in ("recipe", "entities", "changed_groups")}


class CatalogLink(BaseOperatorLink):
    """A button of the task's page; Airflow keeps its address when the task has ended."""

    @property
    def name(self) -> str:
        """The words on the button."""
        return "Catalog"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the page of the one group that changed, else the catalog's; empty for none."""
        del ti_key
        return str(getattr(operator, "catalog_page", "") or "")
