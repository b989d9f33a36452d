"""What Airflow is told of this package; plain data, since every start of Airflow reads it."""

from typing import Any, Final

CONNECTION_TYPE: Final = "mlcat"

_TEXT: Final = {"type": ["string", "null"]}


def get_provider_info() -> dict[str, Any]:
    """Return the connection type with its form, and the link from tasks to the catalog.

    Source: `provider_info.schema.json` of Airflow 3.3.
    """
    return {
        "package-name": "mlcat-ingest",
        "name": "mlcat-ingest",
        "description": "MLflow runs and feature stores into a metadata catalog.",
        "connection-types": [
            {
                "connection-type": CONNECTION_TYPE,
                "hook-class-name": "mlcat_ingest.airflow.hook.MlcatHook",
                "hook-name": "Metadata catalog (mlcat-ingest)",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "login", "extra"],
                    "relabeling": {"host": "Server", "password": "Token"},
                    "placeholders": {
                        "host": "https://catalog.example.com/gms",
                        "password": "bearer token; empty where the service asks for none",
                    },
                },
                "conn-fields": {
                    "ui_url": {
                        "label": "Address of the catalog's pages, if it is another one",
                        "schema": _TEXT,
                    },
                    "ca_bundle": {
                        "label": "PEM file of the authorities to trust",
                        "schema": _TEXT,
                    },
                    "timeout_s": {
                        "label": "Seconds to wait for a reply",
                        "schema": {"type": ["number", "null"]},
                    },
                },
            }
        ],
        "extra-links": ["mlcat_ingest.airflow.links.CatalogLink"],
    }
