"""The description of this package for Airflow: plain data, for every start of Airflow reads it."""

from typing import Any, Final

CONNECTION_TYPE: Final = "mlcat"

_FIELDS: Final = (
    ("ui_url", "Catalog pages", "Address for task links. Default: the server's address.", "string"),
    ("ca_bundle", "CA bundle", "PEM file of trusted authorities, on the workers.", "string"),
    ("timeout_s", "Timeout", "Seconds to wait for a reply.", "number"),
)
_OPTIONS: Final = {
    name: {"type": kind, "default": default, "description": text, "example": None}
    | {"version_added": None}
    for name, kind, default, text in (
        ("listener", "boolean", "False", "Whether MLflow runs get tags with their task."),
        ("cluster", "string", "prod", "Cluster of jobs in the catalog (DataHub's `cluster`)."),
        ("platform_instance", "string", "", "Platform instance of jobs, as in DataHub's plugin."),
    )
}


def get_provider_info() -> dict[str, Any]:
    """Return the connection type with its form, the link of tasks, and the settings.

    Source: `provider_info.schema.json` of Airflow 3.3.
    """
    return {
        "package-name": "mlcat-ingest",
        "name": "mlcat-ingest",
        "description": "Ingest MLflow runs and feature stores into a DataHub-compatible catalog.",
        "connection-types": [
            {
                "connection-type": CONNECTION_TYPE,
                "hook-class-name": "mlcat_ingest.airflow.hook.MlcatHook",
                "hook-name": "Metadata catalog (mlcat-ingest)",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "login", "port", "extra"],
                    "relabeling": {"host": "Server", "password": "Token"},
                    "placeholders": {
                        "host": "https://catalog.example.com/gms",
                        "password": "bearer token; empty for a catalog without authentication",
                    },
                },
                "conn-fields": {
                    name: {"label": label, "description": text, "schema": {"type": [kind, "null"]}}
                    for name, label, text, kind in _FIELDS
                },
            }
        ],
        "extra-links": ["mlcat_ingest.airflow.assets.CatalogLink"],
        "config": {"mlcat": {"description": "Settings of mlcat-ingest.", "options": _OPTIONS}},
    }
